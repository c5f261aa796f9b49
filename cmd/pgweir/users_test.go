package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A check finds in the auth_file what a start would end with, and roles that can't log in.
func TestCheckReadsTheAuthFile(t *testing.T) {
	const (
		hash = "md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		tail = "\n[console]\nadmin_users = [\"dba\"]\n[upstream.main]\nurl = \"postgres://pgweir@localhost/postgres\"\n[database.\"*\"]\n"
	)
	for _, c := range []struct {
		name, auth, users, stdout, stderr string
		code                              int
	}{
		{"a line without quotes", "", "\"dba\" \"x\"\napp secret\n", "", "userlist.txt: line 2: no user name in double quotes", exitUsage},
		{"no line for a role", "", "\"app\" \"x\"\n", `admin_users has "dba", who can't log in`, "", exitOK},
		{"only a hash", "", `"dba" "` + hash + `"`, "has only an md5 hash of dba", "", exitOK},
		{"hashes are welcome", `auth_type = "md5"`, `"dba" "` + hash + `"`, "", "", exitOK},
		{"everybody is", `auth_type = "trust"`, "", "", "", exitOK},
		{"all is well", "", `"dba" "x"`, "", "", exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := configFile(t, "[auth]\n"+c.auth+tail)
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), "userlist.txt"), []byte(c.users), 0o600); err != nil {
				t.Fatal(err)
			}
			r := pgweir(t, nil, "check", path)
			if r.code != c.code || !strings.Contains(r.stdout, c.stdout) || !strings.Contains(r.stderr, c.stderr) || (r.stderr == "") != (c.stderr == "") {
				t.Errorf("%+v", r)
			}
			if warned := strings.Contains(r.stdout, "\nwarning"); warned != (c.stdout != "") {
				t.Errorf("warned: %v\n%s", warned, r.stdout)
			}
		})
	}
}

func TestOnlyTheFirstHashesAreNamed(t *testing.T) {
	var text strings.Builder
	for _, role := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		text.WriteString(`"` + role + `" "md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"` + "\n")
	}
	path := configFile(t, "[upstream.main]\nurl = \"postgres://pgweir@db/postgres\"\n[database.\"*\"]\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "userlist.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := pgweir(t, nil, "check", path); !strings.Contains(r.stdout, "only an md5 hash of a, b, c, d, e, and 2 more, and") {
		t.Errorf("%+v", r)
	}
}
