package matrix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// pgbench carries out scripts, and commands of nobody.
type pgbench struct{ agent }

func (pgbench) close() error { return nil }

// script is what pgbench runs for a theme, and its options.
func script(theme string) (text string, args []string) {
	const tx = "begin;\nupdate deal set n = n + 1 where id = :client_id + 1;\nsavepoint s;\nupdate deal set n = n + 100 where id = :client_id + 1;\nrollback to s;\ncommit;\n"
	switch theme {
	case "transactions":
		return tx, nil
	case "prepared":
		return tx, []string{"-M", "prepared"}
	case "pipeline":
		return "\\startpipeline\n" + tx + "\\endpipeline\n", []string{"-M", "extended"}
	default: // errors: those of a lack of serializability are tried again
		return "begin isolation level serializable;\nselect sum(n) from deal;\nupdate deal set n = n + 1 where id = :client_id + 1;\ncommit;\n", []string{"--max-tries=1000"}
	}
}

// bench has pgbench run a theme through pgweir: each of its transactions must be there.
func (th theme) bench(t *testing.T, s *stage) outcome {
	t.Helper()
	if expected("pgbench", th.name) == none {
		return none
	}
	s.reset(t)
	text, args := script(th.name)
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "-n", "-c", "6", "-j", "6", "-t", "20", "-f", file)
	out, err := s.front.Pgbench(t.Context(), pgtest.Login{User: "app", Password: password, Database: "app"}, args...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "120/120") {
		t.Errorf("pgbench has printed:\n%s", out)
	}
	if n := s.ask(t, "select sum(n)::text from deal"); n != "120" {
		t.Errorf("%s of 120 transactions are there", n)
	}
	return holds
}
