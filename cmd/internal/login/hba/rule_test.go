package hba

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown writes rules one a line.
func shown(f *File) string {
	var b strings.Builder
	for i := range f.Rules {
		r := &f.Rules[i]
		x := r.Text()
		fmt.Fprintf(&b, "%s %d %s %q %q %s %s %s %v\n", r, r.Number, x.Type, x.Databases, x.Roles, x.Address, x.Netmask, r.Method, x.Options)
	}
	return b.String()
}

func TestLoadReadsWhatIsIncluded(t *testing.T) {
	d := files{
		"/e/hba": strings.Join([]string{
			"# comment \\",
			"  still one",
			"local all all peer map=m  # end",
			`host "all",shop,"a ""b""" +dba, "x y" 10.0.0.0/8 md5`,
			"include more",
			"include_if_exists none",
			"include_dir d",
			"host @dbs @users ::1 ffff::  \\",
			"  scram-sha-256",
			"hostssl all all all cert map=m",
			`hostssl all all samenet trust clientcert=verify-ca`,
			"local sameuser,samerole,replication all ident",
		}, "\r\n"),
		"/e/more":     "host all /^r[0-9]+$ samehost reject",
		"/e/d/b.conf": "local b all trust",
		"/e/d/a.conf": "local a all trust",
		"/e/d/.conf":  "nonsense",
		"/e/d/note":   "nonsense",
		"/e/dbs":      "one, \"two\" # comment\nthree\n@sub/more",
		"/e/sub/more": "four",
		"/e/users":    "u\n",
	}
	m, bad := loadMaps(files{"/m": "m a b"}, "/m")
	if bad != nil {
		t.Fatal(bad)
	}
	f, bad := loadFile(d, "/e/hba", m)
	if bad != nil {
		t.Fatal(bad)
	}
	const want = `/e/hba:3 1 local ["all"] ["all"]   peer [map=m]
/e/hba:4 2 host ["all" "shop" "a \"b\""] ["+dba" "x y"] 10.0.0.0 255.0.0.0 md5 []
/e/more:1 3 host ["all"] ["/^r[0-9]+$"] samehost  reject []
/e/d/a.conf:1 4 local ["a"] ["all"]   trust []
/e/d/b.conf:1 5 local ["b"] ["all"]   trust []
/e/hba:8 6 host ["one" "two" "three" "four"] ["u"] ::1 ffff:: scram-sha-256 []
/e/hba:10 7 hostssl ["all"] ["all"] all  cert [map=m clientcert=verify-full]
/e/hba:11 8 hostssl ["all"] ["all"] samenet  trust [clientcert=verify-ca]
/e/hba:12 9 local ["sameuser" "samerole" "replication"] ["all"]   peer []
`
	if d := cmp.Diff(want, shown(f)); d != "" {
		t.Error(d)
	}
	if !f.AsksForGroups() || !f.Uses(Peer) || f.Uses(Password) {
		t.Error("what the file needs")
	}
}

func TestProblemsNameTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                              "/h: has no rules: nobody could log in",
		"# nothing":                                     "/h: has no rules: nobody could log in",
		"tcp all all all md5":                           `/h:1:1: invalid connection type "tcp": local, host, hostssl, hostnossl or hostnogssenc`,
		"\n\n host":                                     `/h:3:2: end of line before the database`,
		"local all":                                     `/h:1:1: end of line before the role`,
		"host all all":                                  `/h:1:1: end of line before the address`,
		"host all all 10.0.0.1":                         `/h:1:1: end of line before the IP mask`,
		"local all all":                                 `/h:1:1: end of line before the authentication method`,
		"host all all 10.0.0.0/33 md5":                  `/h:1:14: invalid CIDR mask in address "10.0.0.0/33"`,
		"host all all 10.0.0.0/x md5":                   `/h:1:14: invalid CIDR mask in address "10.0.0.0/x"`,
		"host all all 10.0.0.300/8 md5":                 `/h:1:14: invalid IP address "10.0.0.300"`,
		"host all all 10.0.0.0 ffff:: md5":              `/h:1:23: IP address and mask do not match`,
		"host all all 10.0.0.0 md5":                     `/h:1:23: invalid IP mask "md5"`,
		"host all all db.internal md5":                  `/h:1:14: pgweir does not look up host names: write the address of "db.internal", or a network`,
		"host all all fe80::1%lo/64 md5":                `/h:1:14: an address with a zone is not supported: "fe80::1%lo"`,
		"host all all 1.1.1.1/8,2.2.2.2/8":              `/h:1:24: more than one address`,
		"local,host all all md5":                        `/h:1:7: more than one connection type`,
		"host all all all peer":                         `/h:1:18: peer authentication is only supported on local sockets`,
		"host all all all cert":                         `/h:1:18: cert authentication is only supported on hostssl connections`,
		"host all all all ldap x=y":                     `/h:1:18: pgweir does not have the authentication method "ldap"`,
		"host all all all ident":                        `/h:1:18: pgweir does not have the authentication method "ident"`,
		"host all all all scram":                        `/h:1:18: invalid authentication method "scram"`,
		"host all all all md5 x":                        `/h:1:22: authentication option not in name=value format: x`,
		"host all all all md5 x=y":                      `/h:1:22: pgweir does not have the authentication option "x=y"`[:0] + `/h:1:22: pgweir does not have the authentication option "x"`,
		"host all all all md5 map=m":                    `/h:1:22: the option map is for the methods cert and peer`,
		"local all all peer map=":                       `/h:1:20: the option map needs the name of a map`,
		"local all all peer map=m":                      `/h:1:1: there is no map "m" in the ident_file`,
		"host all all all md5 clientcert=verify-ca":     `/h:1:22: the option clientcert is for hostssl rules`,
		"hostssl all all all md5 clientcert=1":          `/h:1:25: clientcert is verify-ca or verify-full, not "1"`,
		"hostssl all all all cert clientcert=verify-ca": `/h:1:26: with cert, clientcert can only be verify-full`,
		"hostssl all all all cert clientname=DN":        `/h:1:26: pgweir does not have the authentication option "clientname"`,
		"hostgssenc all all all trust":                  `/h:1:1: pgweir has no GSSAPI encryption: this rule would be for nobody`,
		`host "all all all md5`:                         `/h:1:6: this quote is not closed on its line`,
		`host all "é" "x`:                               `/h:1:14: this quote is not closed on its line`,
		"host all \\\n  all all nope":                   `/h:2:11: invalid authentication method "nope"`,
		"host all /( all md5":                           `/h:1:10: regular expression "(": missing closing ): ` + "`(?s)(`",
		`host /a\b all all md5`:                         `/h:1:6: regular expression "a\\b": pgweir does not know the escape \b`,
		"host @none all all md5":                        `/h:1:6: /none: file does not exist`,
		"include none":                                  `/h:1:9: /none: file does not exist`,
		"include_dir none":                              `/h:1:13: /none: file does not exist`,
		"include h":                                     `/h:1:9: files within files, more than 10 deep`,
		"local @h all trust":                            `/h:1:7: files within files, more than 10 deep`,
	} {
		_, bad := loadFile(files{"/h": text}, "/h", nil)
		if len(bad) == 0 || bad[0].String() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, bad, want)
		}
	}
	if _, bad := loadFile(files{}, "/h", nil); len(bad) != 1 || bad[0].String() != "/h: file does not exist" {
		t.Error(bad)
	}
	_, bad := loadFile(files{"/h": "a\nlocal all all trust\nb\n"}, "/h", nil)
	if len(bad) != 2 || bad[0].Line != 1 || bad[1].Line != 3 {
		t.Errorf("not all problems: %v", bad)
	}
}

func TestLoadIsBounded(t *testing.T) {
	for name, d := range map[string]files{
		"bytes": {"/h": strings.Repeat(" ", maxBytes+1)},
		"lines": {"/h": strings.Repeat("x\n", maxLines+1)},
		"words": {"/h": "local all " + strings.Repeat("u,", maxTokens) + "u trust"},
		"files": {"/h": strings.Repeat("include a\n", 101), "/a": strings.Repeat("include b\n", 10), "/b": "local all all trust"},
		"again": {"/h": strings.Repeat("include h\n", 20)},
	} {
		_, bad := loadFile(d, "/h", nil)
		if len(bad) == 0 || !strings.Contains(fmt.Sprint(bad), "too much to read") {
			t.Errorf("%s: %.200v", name, bad)
		}
	}
}

func TestForeignExpressionsAreRefused(t *testing.T) {
	for _, s := range []string{
		`\bx`, `\By`, `\x41`, `\1`, `\Zx`, `\mx`, `\yx`, `\Qx\E`, `\pL`, `\é`, `x\`, `(?P<n>x)`, `(?s)x`, `x(?i)y`, `x*?`, `x+?`, `x??`, `x{1,2}?`,
		`[[.a.]]`, `[[=a=]]`, `[a`, `[]`, `[\bx]`, `[\D]`, `(`, `*`, `a**`, `***:x`, strings.Repeat("x", maxExpr+1),
	} {
		if _, why := compile(s); why == "" {
			t.Errorf("%q compiles", s)
		}
	}
	for s, texts := range map[string][2]string{
		`^a.c$`:              {"a\nc", "xabc"},
		`b`:                  {"abc", "xyz"},
		`(?i)^AB`:            {"abc", "xab"},
		`^(?:a|ab)c$`:        {"abc", "bc"},
		`^[]a]$`:             {"]", "b"},
		`^[^]a]$`:            {"b", "]"},
		`^[[:alpha:]_]\d\w$`: {"_7x", "77x"},
		`^x\.y`:              {"x.y", "xay"},
	} {
		e, why := compile(s)
		if why != "" || !e.MatchString(texts[0]) || e.MatchString(texts[1]) {
			t.Errorf("%q: %s", s, why)
		}
	}
}
