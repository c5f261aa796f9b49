package scram

import (
	"strings"
	"testing"

	"github.com/xdg-go/stringprep"
	"pgregory.net/rapid"
)

func TestPrepare(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"pencil":             "pencil",
		"a\x01b\x7f":         "a\x01b\x7f",         // ASCII is never looked at
		"I\u00adX":           "IX",                 // invisible
		"I\u1806X":           "IX",                 // the Mongolian one, too
		"I\u200bX":           "I X",                // of zero width: invisible and a space, which comes first
		"\u00aa":             "a",                  // compatibility
		"\u2168":             "IX",                 // compatibility, longer
		"e\u0301":            "\u00e9",             // composed
		"a\u00a0b":           "a b",                // unusual space
		"\u00ad":             "\u00ad",             // nothing left: as it is
		"\u00e9\u0007":       "\u00e9\u0007",       // prohibited: as it is
		"e\u0301\u0007":      "e\u0301\u0007",      // and then not even composed
		"e\u0301\U0001f600":  "e\u0301\U0001f600",  // not in Unicode 3.2
		"\u0627\u0031":       "\u0627\u0031",       // right-to-left must end so
		"\u0627a\u0628":      "\u0627a\u0628",      // mixed
		"\u0627\u0031\u0628": "\u0627\u0031\u0628", // right
		"\ufb50\u0628":       "\u0671\u0628",       // right, compatibility
		"e\u0301\xff":        "e\u0301\xff",        // not UTF-8
	} {
		if got := Prepare(in); got != want {
			t.Errorf("%+q: %+q, not %+q", in, got, want)
		}
	}
}

// TestPrepareAsTheStandard compares with an implementation of the standard that
// looks for prohibited characters after the normalisation, where it matters.
func TestPrepareAsTheStandard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringN(1, 6, -1).Draw(t, "password")
		if strings.ContainsAny(in, "\u1806\u200b") {
			return // it forgets the one, and drops the other; TestPrepare has both
		}
		want, err := stringprep.SASLprep.Prepare(in)
		if err != nil || want == "" || isASCII(in) {
			return // there Postgres takes another way
		}
		got := Prepare(in)
		if got == want {
			return
		}
		rs := mapped(in)
		if got == in && (prohibited.hasAny(rs) || unassigned.hasAny(rs) || mixesDirections(rs)) {
			return // a prohibited character that the normalisation would have removed
		}
		t.Errorf("%+q: %+q, not %+q", in, got, want)
	})
}

func TestTablesAscend(t *testing.T) {
	for name, table := range map[string]codePoints{
		"spaces": spaces, "dropped": dropped, "prohibited": prohibited,
		"unassigned": unassigned, "rightToLeft": rightToLeft, "leftToRight": leftToRight,
	} {
		if len(table)%2 != 0 {
			t.Errorf("%s: a range without end", name)
			continue
		}
		last := rune(-1)
		for i := 0; i < len(table); i += 2 {
			if table[i] <= last || table[i+1] < table[i] {
				t.Errorf("%s: %x", name, table[i:i+2])
			}
			last = table[i+1]
		}
	}
}
