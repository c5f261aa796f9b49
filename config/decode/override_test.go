package decode

import (
	"slices"
	"testing"

	"github.com/pgweir/pgweir/config/document"
)

// A name that no key can be written with is a problem of the file, whatever is set besides.
func TestSETBesideANameThatIsRefused(t *testing.T) {
	text := "[upstream.\"a\\u0007\"]\nurl = \"postgres://pgweir@db/postgres\"\n[database.\"*\"]\n"
	src := &document.Source{Name: "x.toml", Text: text, Dir: "."}
	problems := File(src, func(string) string { return "" }, map[string]string{"max_logins": "5", "budget": "5"}).Problems()
	var files []string
	for _, p := range problems {
		files = append(files, p.File)
	}
	if !slices.Contains(files, "x.toml") {
		t.Errorf("%v", problems)
	}
}
