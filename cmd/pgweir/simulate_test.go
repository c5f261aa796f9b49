package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const simulatedFile = `
[auth]
auth_type = "trust"
[upstream.main]
url = "postgres://app@localhost/app"
budget = 8
[database."*"]
upstream = "main"
[[workload]]
name = "web"
match = { application_name = ["web*"] }
[[rate]]
per = "role"
match = { role = ["batch"] }
rate = "5/s"
`

func TestSimulateTellsWhatWouldBeRefused(t *testing.T) {
	path := configFile(t, simulatedFile)
	args := []string{
		"simulate", "--config", path, "--load", "300x2s", "--seeds", "2",
		"--stream", "app_name=web,share=50%,service=20ms,patience=1s", "--stream", "app_name=cron,role=batch,share=50%,service=20ms",
	}
	r := pgweir(t, nil, args...)
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"5 slots", "stream web", "stream cron", "rate ", "mean of 2 seeds"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	again := pgweir(t, nil, args...)
	if again.stdout != r.stdout {
		t.Errorf("the same seeds, another result:\n%s\n%s", r.stdout, again.stdout)
	}

	r = pgweir(t, nil, append(args, "--change", "slots=2", "--policies", "fifo,bounded")...)
	for _, want := range []string{"changed, fifo", "pgweir.toml, bounded"} {
		if r.code != exitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%+v", want, r)
		}
	}
	if r = pgweir(t, nil, append(args, "--compare", path)...); r.code != exitOK || !strings.Contains(r.stdout, "longest queue") {
		t.Errorf("%+v", r)
	}

	r = pgweir(t, nil, append(args, "--json")...)
	var reports []struct {
		Name  string
		Seeds int
		All   struct{ Mean map[string]any }
	}
	if err := json.Unmarshal([]byte(r.stdout), &reports); err != nil || len(reports) != 1 || reports[0].Seeds != 2 {
		t.Fatalf("%v: %+v", err, r)
	}
	if n, _ := reports[0].All.Mean["arrived"].(float64); n < 500 || n > 700 {
		t.Errorf("%v arrived of 600", n)
	}
}

func TestSimulatePresets(t *testing.T) {
	if r := pgweir(t, nil, "simulate", "--presets"); r.code != exitOK || !strings.Contains(r.stdout, "retry storm") {
		t.Errorf("%+v", r)
	}
	r := pgweir(t, nil, "simulate", "--preset", "b", "--seeds", "1", "--policies", "fifo,bounded", "--change", "default.max_wait=300ms")
	if r.code != exitOK || !strings.Contains(r.stdout, "stream greedy") || !strings.Contains(r.stdout, "published:") {
		t.Errorf("%+v", r)
	}
}

func TestSimulateAnswersWrongInput(t *testing.T) {
	path := configFile(t, simulatedFile)
	web := "--stream=app_name=web,service=20ms"
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"no load", "which load", nil},
		{"no configuration", "which configuration", []string{"--load=1x1s"}},
		{"no streams", "there are no streams", []string{"--config", path, "--load=1x1s"}},
		{"no file", "no such file", []string{"--config", filepath.Join(t.TempDir(), "gone.toml"), "--load=1x1s", web}},
		{"load", `"80" is not a phase`, []string{"--config", path, "--load=80", web}},
		{"length", "is not a duration", []string{"--config", path, "--load=80x5", web}},
		{"too long", "longer than 24h", []string{"--config", path, "--load=1x20h,1x20h", web}},
		{"key", `did you mean "service"`, []string{"--config", path, "--load=1x1s", "--stream=sevice=20ms"}},
		{"unknown key", "there are app_name", []string{"--config", path, "--load=1x1s", "--stream=zzzzzzzzz=20ms"}},
		{"twice", "given twice", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,service=20ms"}},
		{"no value", "has no value", []string{"--config", path, "--load=1x1s", "--stream=service"}},
		{"no service", "service is missing", []string{"--config", path, "--load=1x1s", "--stream=app_name=web"}},
		{"service", "is not a duration", []string{"--config", path, "--load=1x1s", "--stream=service=20"}},
		{"service share", "is not a share", []string{"--config", path, "--load=1x1s", "--stream=service=20ms@1"}},
		{"spread", "is none of fixed", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,spread=wide"}},
		{"sigma", "is not the sigma", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,spread=lognormal:x"}},
		{"sources", "only one of share", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,share=5%,rate=1/s"}},
		{"share", "is not a share", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,share=0.5"}},
		{"rate", "is not a rate", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,rate=-1"}},
		{"queries", "needs clients", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,queries=5"}},
		{"tenants", "only one of tenant", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,tenant=a,tenants=3"}},
		{"many tenants", "number from 1", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,tenants=0"}},
		{"leave", "needs patience", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,leave=walk"}},
		{"deadline", "needs patience", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,deadline=patience"}},
		{"word", "none of close, cancel", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,patience=1s,leave=run"}},
		{"class", "none of critical_plus", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,class=high"}},
		{"session mode", "session mode", []string{"--config", path, "--load=1x1s", "--stream=service=20ms,app_name=pg_dump"}},
		{"event", "is not an event", []string{"--config", path, "--load=1x1s", web, "--event=crash=1s..2s"}},
		{"event time", "write from and to", []string{"--config", path, "--load=1x1s", web, "--event=freeze=2s..1s"}},
		{"event speed", "has no speed", []string{"--config", path, "--load=1x1s", web, "--event=slow=1s..2s"}},
		{"policy", "is not a policy", []string{"--config", path, "--load=1x1s", web, "--policies=best"}},
		{"preset", "no preset", []string{"--preset=Z"}},
		{"preset and load", "exclude each other", []string{"--preset=A", "--load=1x1s"}},
		{"preset policy", "is not a policy", []string{"--preset=A", "--policies=best"}},
		{"change", "key=value", []string{"--config", path, "--load=1x1s", web, "--change=slots"}},
		{"wrong change", "upstream.main.slots", []string{"--config", path, "--load=1x1s", web, "--change=slots=100"}},
		{"seeds", "1 to 1000", []string{"--preset=A", "--seeds=5000"}},
	} {
		r := pgweir(t, nil, append([]string{"simulate"}, tc.args...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, tc.want) || r.stdout != "" {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

// The first example of the help and that of the README work.
func TestSimulateExamplesWork(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	path := configFile(t, simulatedFile)
	for _, text := range []string{simulateCommand().detail, string(readme)} {
		_, example, found := strings.Cut(text, "pgweir simulate --config pgweir.toml")
		if !found {
			t.Fatal("no example")
		}
		example, _, _ = strings.Cut(strings.ReplaceAll(example, "\\\n", " "), "\n")
		args := append([]string{"simulate", "--config", path}, strings.Fields(example)...)
		if r := pgweir(t, nil, args...); r.code != exitOK {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
