package parity

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// options of these tests.
type options struct {
	seed   *uint64
	cuts   *int
	beside *int
}

func flags() options {
	return options{
		seed:   flag.Uint64("parity.seed", 0, "seed of how bytes are cut and who runs beside whom; 0: a new one"),
		cuts:   flag.Int("parity.cuts", 1, "how often each conversation is played with each pgweir"),
		beside: flag.Int("parity.beside", 3, "how many rounds of conversations run beside each other"),
	}
}

// flagged are the options. Flags have to exist before the tests run.
var flagged = flags()

// minSequences is how many conversations the corpus must have.
const minSequences = 150

func TestParity(t *testing.T) {
	corpus := loadCorpus(t)
	if len(corpus) < minSequences {
		t.Errorf("the corpus has %d sequences, at least %d are wanted", len(corpus), minSequences)
	}
	seed := *flagged.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d sequences; -parity.seed=%d", len(corpus), seed)
	l := newLab(t)
	direct := make(map[*sequence]transcript)
	for _, s := range corpus {
		t.Run(fmt.Sprintf("%s/%s", strings.TrimSuffix(s.file, ".txt"), s.name), func(t *testing.T) {
			direct[s] = l.compare(t, s, seed)
		})
	}
	t.Run("beside each other", func(t *testing.T) { l.besides(t, corpus, direct, seed) })
}

// compare plays a sequence with PostgreSQL and with each pgweir.
func (l *lab) compare(t *testing.T, s *sequence, seed uint64) transcript {
	want, tables, err := l.playAlone(t.Context(), s, l.cluster.Endpoint, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatalf("%v: PostgreSQL itself: %v\n%s", s, err, want.dump())
	}
	for cut := range *flagged.cuts {
		for servers, to := range map[int]pgtest.Endpoint{1: l.one, 3: l.three} {
			if s.servers > servers {
				continue
			}
			got, after, err := l.playAlone(t.Context(), s, to, rand.New(rand.NewPCG(seed, uint64(10*cut+servers))))
			if err != nil {
				t.Errorf("%v: pgweir with %d servers: %v", s, servers, err)
			}
			judge(t, s, servers, want, got)
			if diff := cmp.Diff(tables, after); diff != "" && err == nil {
				t.Errorf("%v: other rows are left in the tables (-PostgreSQL +pgweir):\n%s", s, diff)
			}
			if err := l.serves(t.Context(), to); err != nil {
				t.Fatalf("%v: afterwards: %v", s, err)
			}
		}
	}
	return want
}

// judge compares what was said.
func judge(t *testing.T, s *sequence, servers int, want, got transcript) {
	t.Helper()
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		diff = append(diff, difference(name, frames(want[name]), frames(got[name]))...)
	}
	if slices.Equal(diff, s.want) {
		return
	}
	what := "differs (- PostgreSQL, + pgweir)"
	if s.differs != "" {
		what = "differs in another way than the corpus says:\n" + strings.Join(s.want, "\n") + "\nbut"
	}
	t.Errorf("%v: with %d servers %s:\n%s\nPostgreSQL said:\n%s", s, servers, what, strings.Join(diff, "\n"), want.dump())
}

// playAlone plays a sequence; if it writes, the tables are brought back first and read
// afterwards.
func (l *lab) playAlone(ctx context.Context, s *sequence, to pgtest.Endpoint, rnd *rand.Rand) (transcript, string, error) {
	if !s.alone {
		got, err := l.play(ctx, s, to, rnd)
		return got, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if err := l.exec(ctx, reset); err != nil {
		return nil, "", err
	}
	got, err := l.play(ctx, s, to, rnd)
	if err != nil {
		return got, "", err
	}
	tables, err := l.quiet(ctx)
	return got, tables, err
}

// serves checks that a pgweir still does what it is for.
func (l *lab) serves(ctx context.Context, to pgtest.Endpoint) error {
	probe, err := parseCorpus("probe", "== probe\nQ select 42 as probe, current_setting('application_name'), current_setting('DateStyle')\n")
	if err != nil {
		return err
	}
	got, err := l.play(ctx, probe[0], to, nil)
	if err != nil {
		return err
	}
	if text := got.dump(); !strings.Contains(text, `\x0242\x00\x00\x00\x00\x00\x00\x00\bISO, MDY`) {
		return fmt.Errorf("the answer to a query is\n%s", text)
	}
	return nil
}

// besides plays conversations beside each other over one server, in random company: what
// each is told must not depend on it.
func (l *lab) besides(t *testing.T, corpus []*sequence, direct map[*sequence]transcript, seed uint64) {
	const company = 12
	rnd := rand.New(rand.NewPCG(seed, 1))
	var list []*sequence
	for _, s := range corpus {
		if !s.alone && s.servers == 1 && direct[s] != nil {
			list = append(list, s)
		}
	}
	for range *flagged.beside {
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for group := range slices.Chunk(list, company) {
			var g errgroup.Group
			for _, s := range group {
				cuts := rand.New(rand.NewPCG(rnd.Uint64(), 2))
				g.Go(func() error {
					got, err := l.play(t.Context(), s, l.one, cuts)
					if err != nil {
						t.Errorf("%v: %v", s, err)
					}
					judge(t, s, 1, direct[s], got)
					return nil
				})
			}
			_ = g.Wait() // failures are reported as they come
			if t.Failed() {
				return
			}
		}
	}
}
