# All that a developer runs. Each target sets up what it needs; see .ci/setup for what that
# is and for what happens where it cannot be installed.

FUZZTIME ?= 60s
TESTTIME ?= 12m
SEEDS ?= 100000

.PHONY: help build profile test demo lint fuzz clean

help:
	@echo 'make test   every test, with the race detector, against a real PostgreSQL'
	@echo 'make demo   one overload twice, through an unbounded FIFO and guarded (DEMOFLAGS=--serve: stay)'
	@echo 'make build  bin/pgweir'
	@echo 'make profile  a new profile for make build, after large changes of the code: four minutes'
	@echo 'make lint   gofumpt, go vet, staticcheck'
	@echo 'make fuzz   each fuzz target for FUZZTIME (now $(FUZZTIME))'

build:
	@.ci/setup go
	CGO_ENABLED=0 go build -trimpath -pgo=cmd/pgweir/release.pgo -o bin/pgweir ./cmd/pgweir

# The compiler reads it for what is to be fast. It is not called default.pgo: every test that
# builds pgweir would compile all packages a second time.
profile:
	@.ci/setup go cc postgres
	go run ./integration/peers -of pgweir -clients 64,12 -time 10s -profile cmd/pgweir/release.pgo profile

# -count=1: the black-box tests also depend on what the go command cannot see, such as the
# installed PostgreSQL.
test:
	@.ci/setup go cc postgres browser promtool drivers
	PGWEIR_REQUIRE_CHROMIUM=1 PGWEIR_REQUIRE_DRIVERS=1 CGO_ENABLED=1 go test -race -count=1 -timeout $(TESTTIME) ./...
	@echo 'the simulation: $(SEEDS) seeds, a minute or three'
	go test -timeout $(TESTTIME) -run '^TestSeeds$$' ./cmd/internal/sim -seeds $(SEEDS)

demo:
	@.ci/setup go postgres
	go run ./cmd/pgweir demo $(DEMOFLAGS)

lint:
	@.ci/setup go
	@unformatted=$$(go tool gofumpt -l .) || exit 1; if [ -n "$$unformatted" ]; then \
		echo "not formatted, run \`go tool gofumpt -l -w .\`:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

fuzz:
	@.ci/setup go
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | \
	sed 's|/[^/]*:func | |' | sort | \
	while read -r dir target; do \
		echo "== $$dir $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null || exit 1; \
	done

clean:
	rm -rf bin
