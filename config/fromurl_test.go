package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/values"
)

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
		if problem := endpoint.PostgresURL(&again).Set(values.Value{Node: document.Literal(settingOf(t, c, "upstream.main.url").secret)}); problem != nil {
			t.Fatalf("%q is read as %q, which is refused: %s", text, c.Upstreams[0].URL.Reveal(), problem.Message)
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
