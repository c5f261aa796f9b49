package login

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

func verifier(t testing.TB, password string) *scram.Verifier {
	t.Helper()
	v, err := scram.NewVerifier(password, []byte("salt of 16 bytes"), scram.DefaultIterations)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseAuthFile(t *testing.T) {
	v := verifier(t, "x")
	md5 := wire.MD5Password("m", "x")
	file := strings.Join([]string{
		`; a comment`,
		`# another`,
		``,
		`"plain" "pass word"`,
		`  "indented"	"tab"  `,
		`"m" "` + md5 + `"`,
		`"s" "` + v.String() + `"`,
		`"quo""ted" "se""""cret"""`,
		`"none" ""`,
		`"third" "x" "2038-01-19"`,
		`"md5ish" "md5abc"`,
		`"upper" "` + strings.ToUpper(md5) + `"`,
		`"gap""x"`,
		`"crlf" "x"` + "\r",
		`"last" "no line end"`,
	}, "\n")
	users, problems := ParseAuthFile(strings.NewReader(file))
	want := map[string]Secret{
		"plain":    {Plain: "pass word"},
		"indented": {Plain: "tab"},
		"m":        {MD5: md5},
		"s":        {SCRAM: v},
		`quo"ted`:  {Plain: `se""cret"`},
		"none":     {},
		"third":    {Plain: "x"},
		"md5ish":   {Plain: "md5abc"},
		"upper":    {Plain: strings.ToUpper(md5)},
		"crlf":     {Plain: "x"},
		"last":     {Plain: "no line end"},
	}
	if d := cmp.Diff(want, users); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Problem{{13, `no secret in double quotes for user "gap\"x"`}}, problems); d != "" {
		t.Error(d)
	}
}

func TestParseAuthFileProblems(t *testing.T) {
	for line, want := range map[string]string{
		`plain "x"`:                              `line 1: no user name in double quotes`,
		`"plain`:                                 `line 1: no user name in double quotes`,
		`"" "x"`:                                 `line 1: empty user name`,
		`"u"`:                                    `line 1: no secret in double quotes for user "u"`,
		`"u" secret`:                             `line 1: no secret in double quotes for user "u"`,
		`"u" "secret`:                            `line 1: no secret in double quotes for user "u"`,
		`"u" "SCRAM-SHA-256$secret"`:             `line 1: secret of user "u" begins like a SCRAM verifier but is none`,
		`"u` + "\x00" + `" "secret"`:             `line 1: zero byte in the user name`,
		`"u" "secret` + "\x00" + `"`:             `line 1: zero byte in the secret of user "u"`,
		"\n\n" + `"u" "a"` + "\n":                ``,
		"\n" + `"u" "a"` + "\n\n" + `"u" "b"`:    `line 4: user "u" again, first on line 2: this line counts`,
		`"` + strings.Repeat("u", 128) + `" "x"`: `line 1: user name too long`,
		`"u" "` + strings.Repeat("s", 65536) + `"`:   `line 1: secret of user "u" too long`,
		`"u" "` + strings.Repeat("s", maxLine) + `"`: `line 1: cannot be read: bufio.Scanner: token too long`,
	} {
		users, problems := ParseAuthFile(strings.NewReader(line))
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%.40q: %s", line, s)
		}
		if strings.Contains(strings.Join(got, ""), "secret\"") {
			t.Errorf("%.40q: the problem quotes the secret", line)
		}
		if strings.Contains(want, "again") && users["u"].Plain != "b" {
			t.Errorf("%.40q: %v", line, users)
		}
	}
}

func FuzzParseAuthFile(f *testing.F) {
	f.Add(`"u" "p"` + "\n" + `; c` + "\n" + `"a""b" "SCRAM-SHA-256$1:AAAA$x:y"`)
	f.Add(`"u" "md5c59ec932d911ffdf487595b5a2adf973" ""`)
	f.Add("\"\x00\" \"\"")
	f.Fuzz(func(t *testing.T, file string) {
		users, problems := ParseAuthFile(strings.NewReader(file))
		lines := strings.Count(file, "\n") + 1
		if len(users)+len(problems) > lines+1 {
			t.Fatalf("%d users and %d problems of %d lines", len(users), len(problems), lines)
		}
		// What was read can be written, and reads the same.
		var b strings.Builder
		for user, s := range users {
			secret := s.Plain + s.MD5
			if s.SCRAM != nil {
				secret = s.SCRAM.String()
			}
			if strings.ContainsAny(user+secret, "\r\n") {
				return // ends of lines within quotes cannot be written
			}
			q := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
			b.WriteString(q(user) + " " + q(secret) + "\n")
		}
		again, problems := ParseAuthFile(strings.NewReader(b.String()))
		if d := cmp.Diff(users, again); d != "" || len(problems) > 0 {
			t.Fatal(d, problems)
		}
	})
}
