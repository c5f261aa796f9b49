package parity

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// What a run by hand may change: the seed of how bytes are cut and who runs beside whom
// (a new one unless it is set), how often each conversation is played with each pgweir,
// and how many rounds conversations run beside each other.
const (
	seedEnv   = "PGWEIR_PARITY_SEED"
	cutsEnv   = "PGWEIR_PARITY_CUTS"
	besideEnv = "PGWEIR_PARITY_BESIDE"
)

// number reads an environment variable.
func number(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// minSequences is how many conversations the corpus must have.
const minSequences = 560

func TestParity(t *testing.T) {
	corpus := loadCorpus(t)
	if len(corpus) < minSequences {
		t.Errorf("the corpus has %d sequences, at least %d are wanted", len(corpus), minSequences)
	}
	seed := number(t, seedEnv, rand.Uint64())
	t.Logf("%d sequences; %s=%d", len(corpus), seedEnv, seed)
	l := newLab(t)
	direct := make(map[*sequence]transcript)
	for _, s := range corpus {
		if s.below > 0 && l.version >= s.below {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s", strings.TrimSuffix(s.file, ".txt"), s.name), func(t *testing.T) {
			direct[s] = l.compare(t, s, seed)
		})
	}
	for _, by := range l.behind {
		t.Run(fmt.Sprintf("beside each other, %s with %d", by.mode, by.servers), func(t *testing.T) {
			l.besides(t, corpus, direct, seed, by)
		})
	}
}

// compare plays a sequence with PostgreSQL and with each pgweir.
func (l *lab) compare(t *testing.T, s *sequence, seed uint64) transcript {
	want, tables, err := l.playAlone(t.Context(), s, nil, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatalf("%v: PostgreSQL itself: %v\n%s", s, err, want.dump())
	}
	for cut := range number(t, cutsEnv, 1) {
		for i, to := range l.behind {
			if !to.plays(s) {
				continue
			}
			got, after, err := l.playAlone(t.Context(), s, to, rand.New(rand.NewPCG(seed, 10*cut+uint64(i))))
			switch {
			case err != nil:
				t.Errorf("%v: %v: %v", s, to, err)
			case judge(t, s, to, want, got):
				if diff := cmp.Diff(tables, after); diff != "" {
					t.Errorf("%v: %v: other rows are left in the tables (-PostgreSQL +pgweir):\n%s", s, to, diff)
				}
			}
			if s.alone || s.line%5 > 0 {
				continue // it has been done, or shows sooner or later
			}
			if err := l.serves(t.Context(), to); err != nil {
				t.Fatalf("%v: afterwards: %v", s, err)
			}
		}
	}
	return want
}

// judge compares what was said. It reports whether all of the conversation was to be played
// by pgweir as by PostgreSQL: in statement mode it ends where a transaction block begins.
func judge(t *testing.T, s *sequence, by *pgweir, want, got transcript) (whole bool) {
	t.Helper()
	expected := s.differs(by.mode)
	if by.mode == statement && s.differences[statement] == nil && (want.blocks() || s.begins() && got.refused()) {
		if got.blocks() || !got.refused() {
			t.Errorf("%v: the transaction block was not refused in statement mode:\n%s", s, got.dump())
		}
		return false
	}
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		direct, through := want.frames(name), got.frames(name)
		if got[name].halved {
			through = withoutSigns(direct, through)
		}
		if s.prefix != "" {
			direct = direct[:min(len(direct), len(through))]
		}
		diff = append(diff, differing(name, direct, through)...)
	}
	if slices.Equal(diff, expected.want) {
		return true
	}
	what := "differs (- PostgreSQL, + pgweir)"
	if expected.reason != "" {
		what = "differs in another way than the corpus says:\n" + strings.Join(expected.want, "\n") + "\nbut"
	}
	t.Errorf("%v: in %v %s:\n%s\nPostgreSQL said:\n%s", s, by, what, strings.Join(diff, "\n"), want.dump())
	return true
}

// blocks reports whether somebody stood in a transaction block.
func (t transcript) blocks() bool {
	for name := range t {
		for _, f := range t.frames(name) {
			if f.line == `ReadyForQuery "T"` || f.line == `ReadyForQuery "E"` {
				return true
			}
		}
	}
	return false
}

// refused reports whether somebody was told that statement mode has no transaction blocks.
func (t transcript) refused() bool { return strings.Contains(t.dump(), `"reason=statement_mode"`) }

// playAlone plays a sequence, with PostgreSQL itself if by is nil; if it writes, the tables
// are brought back first and read afterwards.
func (l *lab) playAlone(ctx context.Context, s *sequence, by *pgweir, rnd *rand.Rand) (transcript, string, error) {
	to := l.cluster.Endpoint
	if by != nil {
		to = by.Endpoint
	}
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
	if err == nil && by != nil {
		err = l.serves(ctx, by)
	}
	if err != nil {
		return got, "", err
	}
	tables, err := l.quiet(ctx)
	return got, tables, err
}

// serves checks that a pgweir still does what it is for, with all its servers at once.
// None of them is still busy with what came before: it would not be free.
func (l *lab) serves(ctx context.Context, to *pgweir) error {
	const question = "Q select 42 as probe, current_setting('application_name'), current_setting('DateStyle')"
	var text strings.Builder
	text.WriteString("== probe\n")
	for i := range to.servers {
		if to.mode == statement { // it holds its server for a moment
			fmt.Fprintf(&text, "%c: %s from pg_sleep(0.01)\n", 'a'+i, question)
		} else {
			fmt.Fprintf(&text, "%[1]c: Q begin\n%[1]c: %[2]s\n%[1]c: wait\n", 'a'+i, question)
		}
	}
	probe, err := parseCorpus("probe", text.String())
	if err != nil {
		return err
	}
	got, err := l.play(ctx, probe[0], to.Endpoint, nil)
	if err != nil {
		return err
	}
	for name := range got {
		row := got.row(name)
		if row != `DataRow "\x00\x03\x00\x00\x00\x0242\x00\x00\x00\x00\x00\x00\x00\bISO, MDY"` {
			return fmt.Errorf("a query is answered with %s, in\n%s", row, got.dump())
		}
	}
	return nil
}

// row is the only row that a client was sent.
func (t transcript) row(name string) string {
	for _, f := range t.frames(name) {
		if strings.HasPrefix(f.line, "DataRow") {
			return f.line
		}
	}
	return "nothing"
}

// besides plays conversations beside each other over few servers, in random company: what
// each is told must not depend on it.
func (l *lab) besides(t *testing.T, corpus []*sequence, direct map[*sequence]transcript, seed uint64, by *pgweir) {
	const company = 12
	rnd := rand.New(rand.NewPCG(seed, 1))
	var list []*sequence
	for _, s := range corpus {
		if !s.alone && !s.outside() && s.servers == 1 && direct[s] != nil && by.plays(s) {
			if by.mode == session && s.clients() > 1 {
				continue // they would keep servers and wait for more
			}
			list = append(list, s)
		}
	}
	for range number(t, besideEnv, 1) {
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for group := range slices.Chunk(list, company) {
			var g errgroup.Group
			for _, s := range group {
				cuts := rand.New(rand.NewPCG(rnd.Uint64(), 2))
				g.Go(func() error {
					got, err := l.play(t.Context(), s, by.Endpoint, cuts)
					if err != nil {
						t.Errorf("%v: %v", s, err)
					}
					judge(t, s, by, direct[s], got)
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
