package decode

import (
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// problemsOfText are those of a file.
func problemsOfText(text string) []document.Problem {
	return File(&document.Source{Name: "x.toml", Text: text, Dir: "."}, func(string) string { return "" }, nil).Problems()
}

func TestNoKeyIsInForceAndForLater(t *testing.T) {
	for _, k := range schema.Keys() {
		if _, later := findLater(strings.Trim(strings.TrimSuffix(k.Table, ".NAME]"), "[]"), k.Name); later {
			t.Errorf("%s %s is in force and for later", k.Table, k.Name)
		}
	}
}

func TestEveryLaterKeyIsRefused(t *testing.T) {
	const start = "[upstream.main]\nurl = \"postgres://pgweir@db/postgres\"\n[database.\"*\"]\n"
	file := func(k laterKey, value string) string {
		line := k.name + " = " + value + "\n"
		switch k.section {
		case "":
			return line + start
		case "upstream":
			return strings.Replace(start, "[database", line+"[database", 1)
		case "database":
			return start + line
		case "workload":
			return start + "[[workload]]\n" + line
		case "role":
			return start + "[role.x]\n" + line
		default:
			return start + "[" + k.section + "]\n" + line
		}
	}
	for _, k := range laterKeys() {
		problems := problemsOfText(file(k, `"something"`))
		if len(problems) != 1 || problems[0].Message != "is "+values.NotYet {
			t.Errorf("%s %s: %v", k.section, k.name, problems)
		}
		if k.already == "" {
			continue
		}
		if problems := problemsOfText(file(k, k.already)); len(problems) != 0 {
			t.Errorf("%s %s = %s: %v", k.section, k.name, k.already, problems)
		}
	}
	for _, s := range laterSections() {
		for _, head := range []string{"[" + s + "]", "[" + s + ".x]", "[[" + s + ".x]]"} {
			problems := problemsOfText(start + head + "\nx = 1\n")
			if len(problems) != 1 || !strings.Contains(problems[0].Message, values.NotYet) {
				t.Errorf("%s: %v", head, problems)
			}
		}
	}
}
