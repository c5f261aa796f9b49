package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/config"
)

// Rules that ask for certificates let nobody in without an authority.
func TestCertificatesWithoutAuthority(t *testing.T) {
	for rules, want := range map[string]bool{
		"hostssl all all all cert\n":          true,
		"hostssl all all all scram-sha-256\n": false,
	} {
		file := filepath.Join(t.TempDir(), "hba")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		c, problems := config.Parse("x.toml", fmt.Appendf(nil, "[auth]\nauth_type = \"hba\"\nhba_file = %q\n[upstream.main]\nurl = \"postgres://pgweir@localhost/postgres\"\n[database.\"*\"]\n", file))
		if problems != nil {
			t.Fatal(problems)
		}
		all := strings.Join(warnings(c, time.Now()), "\n")
		if got := strings.Contains(all, "by which nobody gets in"); got != want {
			t.Errorf("%q: %s", rules, all)
		}
	}
}
