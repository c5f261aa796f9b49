package config

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pelletier/go-toml/v2/unstable"
	"pgregory.net/rapid"
)

func TestURL(t *testing.T) {
	plain := URL{User: "app", Host: "db", Port: 5432, Database: "shop", SSLMode: Prefer}
	change := func(f func(*URL)) URL {
		u := plain
		f(&u)
		return u
	}
	for text, want := range map[string]URL{
		"postgres://app@db/shop":                              plain,
		"postgresql://app@db:5432/shop":                       plain,
		"postgres://app@db:/shop":                             plain,
		"postgres://app:@db/shop":                             plain,
		"postgres:///?user=app&host=db&port=5432&dbname=shop": plain,
		"postgres://app@db/shop?":                             plain,
		"postgres://app@db/shop?&&":                           plain,
		"postgres://app@db":                                   change(func(u *URL) { u.Database = "app" }),
		"postgres://app@db/":                                  change(func(u *URL) { u.Database = "app" }),
		"postgres://app@db/shop?sslmode=disable":              change(func(u *URL) { u.SSLMode = Disable }),
		"postgres://app:a%3ab@db/shop":                        change(func(u *URL) { u.Password = NewSecret("a:b") }),
		"postgres://app:a:b@db/shop":                          change(func(u *URL) { u.Password = NewSecret("a:b") }),
		"postgres://app:a+b@db/shop":                          change(func(u *URL) { u.Password = NewSecret("a+b") }),
		"postgres://app@db/shop?password=a%26b":               change(func(u *URL) { u.Password = NewSecret("a&b") }),
		"postgres://app@db/a%2Fb":                             change(func(u *URL) { u.Database = "a/b" }),
		"postgres://app@[::1]:6000/shop":                      change(func(u *URL) { u.Host, u.Port = "::1", 6000 }),
		"postgres://app@[::1]/shop":                           change(func(u *URL) { u.Host = "::1" }),
		"postgres://app@10.1.2.3/shop":                        change(func(u *URL) { u.Host = "10.1.2.3" }),
		"postgres://app@%2Fvar%2Frun:6000/shop":               change(func(u *URL) { u.Host, u.Port = "/var/run", 6000 }),
		"postgres://app@/shop?host=/var/run":                  change(func(u *URL) { u.Host = "/var/run" }),
		"postgres://app@ignored/shop?host=/run":               change(func(u *URL) { u.Host = "/run" }),
	} {
		var got URL
		if problem := postgresURL(&got).set(literalText(text)); problem != nil {
			t.Errorf("%s: %s", text, problem.message)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// literalText is a string of a file.
func literalText(text string) value { return value{node: node{kind: unstable.String, text: text}} }

func TestURLIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                    "begins with postgres://",
		"http://app@db/shop":                                  "begins with postgres://",
		"app@db/shop":                                         "begins with postgres://",
		"postgres://":                                         "names no user",
		"postgres://app@":                                     "names no host",
		"postgres://app@/shop":                                "names no host",
		"postgres://app@a,b/shop":                             "more than one host",
		"postgres://app@db:0/shop":                            "the port",
		"postgres://app@db:65536/shop":                        "the port",
		"postgres://app@db:-1/shop":                           "the port",
		"postgres://app@db:54a/shop":                          "the port",
		"postgres://app@[::1/shop":                            "IPv6",
		"postgres://app@[db]/shop":                            "IPv6",
		"postgres://app@d%00b/shop":                           "zero byte",
		"postgres://app@d b/shop":                             "neither a name",
		"postgres://a%0ab@db/shop":                            "control characters",
		"postgres://app@db/%":                                 "two hexadecimal",
		"postgres://app@db/shop?sslmode":                      "has no value",
		"postgres://app@db/shop?sslmode=":                     "neither disable nor prefer",
		"postgres://app@db/shop?sslmode=allow":                notYet,
		"postgres://app@db/shop?options=-c%20x":               notYet,
		"postgres://app@db/shop?what=x":                       "is not a parameter",
		"postgres://app@db/shop?host=%20":                     "neither a name",
		"postgres://app@/x?host=/" + strings.Repeat("d", 107): "longer than 107",
	} {
		got := URL{User: "untouched"}
		problem := postgresURL(&got).set(literalText(text))
		if problem == nil || !strings.Contains(problem.message, want) {
			t.Errorf("%q: %+v, want %q", text, problem, want)
		}
		if got.User != "untouched" {
			t.Errorf("%q was refused and stored", text)
		}
	}
}

// A client of Postgres must go where we go: pgconn has libpq's rules and has been compared
// with libpq.
func TestURLAgreesWithPgconn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := URL{
			User:     rapid.StringMatching(`[a-z@:/?#%& é]{1,20}`).Draw(t, "user"),
			Password: NewSecret(rapid.StringMatching(`[a-z@:/?#%&+ é]{0,20}`).Draw(t, "password")),
			Host:     rapid.SampledFrom([]string{"db", "10.0.0.1", "::1", "/var/run/postgresql"}).Draw(t, "host"),
			Port:     rapid.IntRange(1, 65535).Draw(t, "port"),
			Database: rapid.StringMatching(`[a-z@:/?#%&+ é]{1,20}`).Draw(t, "database"),
			SSLMode:  Disable,
		}
		text := u.Reveal()
		var ours URL
		if problem := postgresURL(&ours).set(literalText(text)); problem != nil {
			t.Fatalf("%s: %s", text, problem.message)
		}
		if diff := cmp.Diff(u, ours); diff != "" {
			t.Fatalf("%s (-written +read):\n%s", text, diff)
		}
		theirs, err := pgconn.ParseConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if theirs.User != u.User || theirs.Password != u.Password.Reveal() || theirs.Host != u.Host ||
			int(theirs.Port) != u.Port || theirs.Database != u.Database {
			t.Fatalf("%s: pgconn reads %q %q %q %d %q", text, theirs.User, theirs.Password, theirs.Host, theirs.Port, theirs.Database)
		}
	})
}

func FuzzFromURL(f *testing.F) {
	for _, seed := range []string{
		"postgres://app:secret@db/shop", "postgres://app@[::1]:5432/shop?sslmode=disable", "postgres://a,b",
		"postgres:///x?host=/tmp&user=u", "postgres://%zz", "postgres://a:b@c:d/e?f=g",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := FromURL(text)
		if (c == nil) != (len(problems) > 0) {
			t.Fatalf("config %v with problems %v", c, problems)
		}
		if c == nil {
			return
		}
		sound(t, c)
		var again URL
		if problem := postgresURL(&again).set(literalText(c.Upstreams[0].URL.Reveal())); problem != nil {
			t.Fatalf("%q is read as %q, which is refused: %s", text, c.Upstreams[0].URL.Reveal(), problem.message)
		}
		if !cmp.Equal(again, c.Upstreams[0].URL) {
			t.Fatalf("%q is read as %+v, and that again as %+v", text, c.Upstreams[0].URL, again)
		}
	})
}

// Whatever is wrong with a URL, the password of a user who knows about percent-encoding
// never shows.
func TestNoProblemShowsThePassword(t *testing.T) {
	const password = "Xhunter2X"
	rapid.Check(t, func(t *rapid.T) {
		noise := func(name string) string {
			return rapid.StringMatching(`[a-z0-9,:\[\]/?&=%.-]{0,12}`).Draw(t, name)
		}
		text := rapid.SampledFrom([]string{"postgres://", "postgresql://", "mysql://", "postgres:", ""}).Draw(t, "scheme") +
			rapid.StringMatching(`[a-z%]{0,8}`).Draw(t, "user") + ":" + password +
			rapid.SampledFrom([]string{"@", "%zz@", "/x@", "#@"}).Draw(t, "at") + noise("host") + noise("rest")
		for _, p := range append(problemsOf(text), problemsOfFile("[upstream.main]\nurl = \""+text+"\" "+noise("garbage")+"\n")...) {
			if strings.Contains(p.Detail(), password) {
				t.Fatalf("%s shows in:\n%s", text, p.Detail())
			}
		}
	})
}

func problemsOf(text string) []Problem {
	_, problems := FromURL(text)
	return problems
}

func problemsOfFile(text string) []Problem {
	_, problems := Parse("x.toml", []byte(text))
	return problems
}

func TestURLInPublic(t *testing.T) {
	u := URL{User: "a@b", Password: NewSecret("hunter2"), Host: "::1", Port: 5432, Database: "x y", SSLMode: Disable}
	if got, want := u.String(), "postgres://a%40b:****@[::1]:5432/x%20y?sslmode=disable"; got != want {
		t.Errorf("String %s, want %s", got, want)
	}
	if parsed, err := url.Parse(u.Reveal()); err != nil {
		t.Error(err)
	} else if password, _ := parsed.User.Password(); password != "hunter2" {
		t.Errorf("Reveal %s", u.Reveal())
	}
}
