package sqltext

import (
	"slices"
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	type step struct {
		Kind Kind
		Name string
	}
	for text, want := range map[string][]step{
		"":                        nil,
		"select 1; begin":         nil,
		"savepoint a":             {{Savepoint, "a"}},
		"rollback to b; commit;;": {{RollbackTo, "b"}, {Commit, ""}},
		`begin; savepoint "X y"; select ';savepoint c'; /* savepoint d; */ release savepoint "X y"; rollback`: {
			{Savepoint, "X y"}, {Release, "X y"}, {Rollback, ""},
		},
		"rollback and chain; end and chain; prepare transaction 'x'": {{RollbackChain, ""}, {CommitChain, ""}, {Commit, ""}},
		"rollback prepared 'x'; prepare s as select 1":               nil,
		"savepoint a; select 'not closed":                            nil,
		`savepoint a; select 'x\'; savepoint b; select '1'`:          nil,
		"savepoint a; select $$;$$; release a":                       {{Savepoint, "a"}, {Release, "a"}},
	} {
		var got []step
		steps, _, _ := Steps([]byte(text), 9)
		for _, s := range steps {
			got = append(got, step{s.Kind, s.Name})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestStepsAreBounded(t *testing.T) {
	for n, want := range map[int]int{9: 9, 10: 0} {
		if got, _, ok := Steps([]byte(strings.Repeat("savepoint a;", n)), 9); len(got) != want || ok != (want > 0) {
			t.Errorf("%d of %d", len(got), n)
		}
	}
}
