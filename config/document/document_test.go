package document

import (
	"strings"
	"testing"
)

func TestManySyntaxErrorsAreBounded(t *testing.T) {
	_, problems := Read(&Source{Name: "x.toml", Text: strings.Repeat("a b\n", 5000)})
	if len(problems) != maxSyntaxProblems {
		t.Errorf("%d problems, want %d", len(problems), maxSyntaxProblems)
	}
	_, problems = Read(&Source{Name: "x.toml", Text: "a = [\n" + strings.Repeat("\"b\"\n", 5000)})
	if len(problems) == 0 || len(problems) > maxSyntaxProblems {
		t.Errorf("%d problems", len(problems))
	}
}
