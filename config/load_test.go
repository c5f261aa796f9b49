package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/config/values"
)

const least = "[upstream.main]\nurl = \"postgres://pgweir:hunter2@db/postgres?sslmode=verify-full\"\n[database.\"*\"]\n"

func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	users := write(t, dir, "userlist.txt", "\"app\" \"secret\"\n", 0o600)
	c, problems := Load(write(t, dir, "private.toml", least, 0o600))
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Auth.File != users {
		t.Errorf("auth_file %s, want %s", c.Auth.File, users)
	}
	if len(c.Warnings()) != 0 {
		t.Error(c.Warnings())
	}
	c, problems = Load(write(t, dir, "public.toml", least, 0o644))
	if problems != nil {
		t.Fatal(problems)
	}
	if len(c.Warnings()) != 1 || !strings.Contains(c.Warnings()[0], "everybody on this machine may read it") {
		t.Error(c.Warnings())
	}
	if err := os.Chmod(users, 0o644); err != nil {
		t.Fatal(err)
	}
	c, problems = Load(filepath.Join(dir, "private.toml"))
	if problems != nil || len(c.Warnings()) != 1 || !strings.Contains(c.Warnings()[0], "userlist.txt holds passwords") {
		t.Error(problems, c.Warnings())
	}
	if err := os.Chmod(users, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGWEIR_TEST_URL", "postgres://pgweir:hunter2@db/postgres?sslmode=verify-full")
	c, problems = Load(write(t, dir, "env.toml", strings.Replace(least, "postgres://pgweir:hunter2@db/postgres?sslmode=verify-full", "${PGWEIR_TEST_URL}", 1), 0o644))
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Upstreams[0].URL.Password.Reveal() != "hunter2" || len(c.Warnings()) != 0 {
		t.Error(c.Upstreams[0].URL.Reveal(), c.Warnings())
	}
}

func TestLoadMissesFiles(t *testing.T) {
	dir := t.TempDir()
	large := write(t, dir, "large.toml", strings.Repeat("#", maxFile+1), 0o600)
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "absent.toml"), "no such file or directory"},
		{dir, "is a directory"},
		{large, "has more than"},
		{write(t, dir, "least.toml", least, 0o600), filepath.Join(dir, "userlist.txt") + ": no such file or directory"},
		{write(t, dir, "named.toml", "[auth]\nauth_file = \"nobody.txt\"\n"+least, 0o600), filepath.Join(dir, "nobody.txt") + ": no such file or directory"},
		{write(t, dir, "trust.toml", "[auth]\nauth_type = \"trust\"\nauth_file = \"nobody.txt\"\n"+least, 0o600), "nobody.txt: no such file or directory"},
	} {
		config, problems := Load(c.path)
		if config != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail(), c.want) || problems[0].File != c.path {
			t.Errorf("%s: %v, want %q", c.path, problems, c.want)
		}
	}
	if _, problems := Load(write(t, dir, "fine.toml", "[auth]\nauth_type = \"trust\"\n"+least, 0o600)); problems != nil {
		t.Error(problems)
	}
	_, problems := Load(write(t, dir, "two.toml", "max_logins = 0\n[auth]\nauth_file = \"nobody.txt\"\n"+least, 0o600))
	if len(problems) != 2 || problems[0].Line != 1 || problems[1].Line != 3 {
		t.Errorf("%v", problems)
	}
}

func TestFromURL(t *testing.T) {
	c, problems := FromURL("postgres://app:secret@db/shop?sslmode=disable")
	if problems != nil {
		t.Fatal(problems)
	}
	file, problems := Parse("x.toml", []byte("[upstream.main]\nurl = \"postgres://app:secret@db/shop?sslmode=disable\"\n[database.\"*\"]\n"))
	if problems != nil {
		t.Fatal(problems)
	}
	file.Auth = Auth{Type: Scram, User: "app", Password: values.NewSecret("secret"), QueryAge: file.Auth.QueryAge}
	if diff := sameConfig(file, c); diff != "" {
		t.Errorf("a file with the URL differs (-file +URL):\n%s", diff)
	}
	if got, want := c.Listen, []Listen{{Network: "tcp", Address: "127.0.0.1:6432"}}; !cmp.Equal(got, want) {
		t.Errorf("listens on %v", got)
	}
}

func TestFromURLWithoutPassword(t *testing.T) {
	c, problems := FromURL("postgres://app@db/shop?sslmode=verify-full")
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Auth.Type != Trust || c.Auth.User != "app" || len(c.Warnings()) != 1 {
		t.Errorf("%+v %v", c.Auth, c.Warnings())
	}
}

func TestFromURLTellsWhatIsWrong(t *testing.T) {
	_, problems := FromURL("postgres://app:hunter2@db:x/shop?sslmode=none")
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.Detail() + "\n\n")
	}
	golden(t, "testdata/from_url.golden", b.String())
}

func TestLoadLooksForPasswordFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "userlist.txt", "", 0o600)
	private := write(t, dir, "private.txt", "secret\n", 0o600)
	write(t, dir, "public.txt", "secret\n", 0o644)
	file := func(name string) string {
		return write(t, dir, "pgweir.toml", least+"user = \"app\"\npassword_file = \""+name+"\"\n", 0o600)
	}
	c, problems := Load(file("private.txt"))
	if problems != nil {
		t.Fatal(problems)
	}
	if got := c.Databases[0].PasswordFile; got != private || len(c.Warnings()) != 0 {
		t.Error(got, c.Warnings())
	}
	if c, problems = Load(file("public.txt")); problems != nil || len(c.Warnings()) != 1 {
		t.Error(problems, c.Warnings())
	}
	if _, problems = Load(file("absent.txt")); len(problems) != 1 || problems[0].Key != `database."*".password_file` || problems[0].Line == 0 {
		t.Error(problems)
	}
	o := Options{Set: map[string]string{"password_file": "gone.txt"}}
	if _, problems = o.Load(file("private.txt")); len(problems) != 1 || problems[0].File != "SET" {
		t.Error(problems)
	}
}

func TestLoadLooksForTheFilesOfTheURL(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "userlist.txt", "", 0o600)
	there := write(t, dir, "there.crt", "", 0o600)
	for parameters, want := range map[string]string{
		"sslrootcert=there.crt": "", "sslrootcert=" + there: "", "sslrootcert=system": "", "sslcert=there.crt&sslkey=there.crt": "",
		"sslrootcert=gone.crt":              "sslrootcert: " + filepath.Join(dir, "gone.crt") + ": no such file",
		"sslcert=there.crt&sslkey=gone.key": "sslkey: ",
		"sslcert=gone.crt&sslkey=there.crt": "sslcert: ",
	} {
		_, problems := Load(write(t, dir, "pgweir.toml", strings.Replace(least, "verify-full", "verify-full&"+parameters, 1), 0o600))
		if (len(problems) == 0) != (want == "") || want != "" && !strings.HasPrefix(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", parameters, problems, want)
		}
	}
	if _, problems := FromURL("postgres://app@db/shop?sslrootcert=" + filepath.Join(dir, "gone.crt")); len(problems) != 1 {
		t.Error(problems)
	}
}
