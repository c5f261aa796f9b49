package hba

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func hosts() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("192.168.5.4/24"), netip.MustParsePrefix("fe80::1/64"),
	}
}

func TestFirstRuleWins(t *testing.T) {
	f, bad := loadFile(files{"/h": strings.Join([]string{
		"local   all          all     peer",                           // 1
		"host    replication  rep     10.1.0.0/16      md5",           // 2
		"host    shop,\"all\" app     10.0.0.0/8       md5",           // 3
		"hostssl sameuser     all     10.0.0.0/8       password",      // 4
		"hostnossl /^t[0-9]   /^u     10.0.0.0 255.0.0.255 trust",     // 5
		"host    all          +dba    samehost         scram-sha-256", // 6
		"host    samerole     all     samenet          md5",           // 7
		"host    all          \"+dba\",\"all\" all    reject",         // 8
		"host    all          all     fd00::/8         md5",           // 9
	}, "\n")}, "/h", nil)
	if bad != nil {
		t.Fatal(bad)
	}
	groups := map[string][]string{"anna": {"anna", "dba", "shop"}}
	for want, clients := range map[int][]string{
		1: {"local shop anna", "local all nobody"},
		2: {"10.1.2.3 repl rep"},
		3: {"10.2.0.0 shop app", "10.2.0.0 all app", "ssl:10.2.0.0 shop app", "::ffff:10.2.0.0 shop app"},
		4: {"ssl:10.2.0.0 bob bob"},
		5: {"10.7.7.0 t1x uma"},
		6: {"192.168.5.4 x anna", "127.0.0.1 x anna", "fe80::1%eth0 x anna"},
		7: {"192.168.5.9 shop anna", "127.1.2.3 anna anna", "fe80::ffff shop anna"},
		8: {"8.8.8.8 x +dba", "10.0.0.0 x all", "fd00::1 x all"},
		9: {"fd00::1 x y"},
		0: {"10.2.0.0 other app", "10.2.0.0 bob bob", "10.7.7.1 t1x uma", "ssl:10.7.7.0 t1x hugo", "192.168.5.4 x bob", "192.168.6.4 shop anna", "192.168.5.9 other anna", "10.9.2.3 repl rep", "10.1.2.3 replication rep", "::1 x y", "local: x y"},
	} {
		for _, c := range clients {
			if c == "local: x y" {
				continue
			}
			w := strings.Fields(c)
			addr, ssl := strings.CutPrefix(w[0], "ssl:")
			q := &Query{Local: addr == "local", TLS: ssl, Database: w[1], Role: w[2], Replication: w[1] == "repl", Own: hosts}
			if !q.Local {
				q.Addr = netip.MustParseAddr(addr)
			}
			q.MemberOf = func(g string) (bool, error) { return slices.Contains(groups[q.Role], g), nil }
			r, err := f.Match(q)
			got := 0
			if r != nil {
				got = r.Line
			}
			if got != want || err != nil {
				t.Errorf("%s: rule %d, want %d (%v)", c, got, want, err)
			}
		}
	}
}

func TestUnknownMembershipIsNoAnswer(t *testing.T) {
	away := errors.New("away")
	f, _ := loadFile(files{"/h": "host shop all all trust\nhost all +dba all md5\nhost samerole all all md5\nhost all all all trust"}, "/h", nil)
	q := &Query{Addr: netip.MustParseAddr("::1"), Database: "x", Role: "y", MemberOf: func(string) (bool, error) { return false, away }}
	if r, err := f.Match(q); r != nil || err != away {
		t.Errorf("rule %v, %v", r, err)
	}
	q.Database = "shop"
	if r, err := f.Match(q); err != nil || r == nil || r.Line != 1 {
		t.Errorf("a rule before it: %v, %v", r, err)
	}
	q.Database, q.MemberOf = "x", nil
	if r, err := f.Match(q); err != nil || r == nil || r.Line != 4 {
		t.Errorf("nobody is a member: %v, %v", r, err)
	}
}

func TestMaps(t *testing.T) {
	m, bad := loadMaps(files{
		"/i": strings.Join([]string{
			`# map  system  role`,
			`m   anna            admin`,
			`m   "Bob Q"         bob`,
			`m   /^(.*)@corp$    \1`,
			`m   /^svc-(\w+)$    svc_\1_rw`,
			`m   dba             +dba`,
			`m   root            all`,
			`m   toor            "all"`,
			`m   reader          /^ro_`,
			`m   /^plain         plain`,
			`m   /^(x)?y$        r\1`,
			`m   lit             r\1`,
			`m   /^g(.*)$        "+\1"`,
			`other anna          postgres`,
			`include more`,
		}, "\n"),
		"/more": "more a b",
	}, "/i")
	if bad != nil {
		t.Fatal(bad)
	}
	if !m.Has("m") || !m.Has("more") || m.Has("M") || (*Maps)(nil).Has("m") || m.Lines() != 14 || (*Maps)(nil).Lines() != 0 {
		t.Error("which maps there are")
	}
	for at, want := range map[string]bool{
		"m anna admin": true, "m anna anna": false, "m anna postgres": false, "other anna postgres": true, "none anna anna": false,
		"m ANNA admin": false, "m eve@corp eve": true, "m eve@corp eva": false, "m eve@corp.evil eve": false,
		"m svc-pay svc_pay_rw": true, "m svc-pay svc_pay": false, "m dba eve": true, "m dba bob": false,
		"m root anything": true, "m toor anything": false, "m toor all": true, "m reader ro_x": true, "m reader x_ro_": false,
		"m plainest plain": true, "m y r": false, "m xy rx": true, `m lit r\1`: true, "m gdba +dba": true, "m gdba eve": false,
		"more a b": true, "m all@corp all": true, "m all@corp other": false, "m +dba@corp eve": false, "m /x@corp x": false, "m /x@corp /x": true,
	} {
		w := strings.Fields(at)
		q := &Query{Role: w[2], MemberOf: func(g string) (bool, error) { return w[2] == "eve" && g == "dba", nil }}
		if got, err := m.Allows(w[0], w[1], q); got != want || err != nil {
			t.Errorf("%s: %v, %v", at, got, err)
		}
	}
	same := &Query{Role: "anna"}
	for system, want := range map[string]bool{"anna": true, "Anna": false, "": false} {
		if got, err := (*Maps)(nil).Allows("", system, same); got != want || err != nil {
			t.Errorf("without a map %q: %v", system, got)
		}
	}
	if ok, _ := (*Maps)(nil).Allows("m", "anna", same); ok {
		t.Error("a map that is not there")
	}
	if ok, _ := m.Allows("m", "Bob Q", &Query{Role: "bob"}); !ok {
		t.Error("a quoted name")
	}
	away := errors.New("away")
	if ok, err := m.Allows("m", "dba", &Query{Role: "x", MemberOf: func(string) (bool, error) { return false, away }}); ok || err != away {
		t.Error("not known is not a no", ok, err)
	}
}

func TestProblemsOfMaps(t *testing.T) {
	for text, want := range map[string]string{
		"m":           "/i:1:1: end of line before the system user",
		"m a":         "/i:1:1: end of line before the role",
		"m a b c":     "/i:1:7: a map has three fields: its name, the system user and the role",
		"m a,b c":     "/i:1:5: more than one system user",
		`m /^x$ y\1`:  `/i:1:3: the regular expression has no ( ) for the \1 of the role`,
		`m a /(`:      "/i:1:5: regular expression \"(\": missing closing ): `(?s)(`",
		`m "a b`:      "/i:1:3: this quote is not closed on its line",
		"include who": "/i:1:9: /who: file does not exist",
	} {
		_, bad := loadMaps(files{"/i": text}, "/i")
		if len(bad) != 1 || bad[0].String() != want {
			t.Errorf("%q: %v", text, bad)
		}
	}
	if m, bad := loadMaps(files{"/i": ""}, "/i"); bad != nil || m.Has("") {
		t.Errorf("no maps are no problem: %v", bad)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("local all all peer map=m\nhost a,\"b\" +g,/^x 10.0.0.0/8 md5\\\n # c", "127.0.0.1", "a", "b")
	f.Add("hostssl sameuser,@x all ::1 ffff:: cert clientcert=verify-full\ninclude x\ninclude_dir /", "::1", "a", "a")
	f.Add("host replication all samenet reject\nhost all all 1.2.3.4 255.0.255.0 trust", "1.9.3.7", "", "\xff")
	f.Fuzz(func(t *testing.T, text, from, database, role string) {
		d := files{"/h": text, "/x": "one, two\n# three"}
		m, _ := loadMaps(d, "/h")
		file, bad := loadFile(d, "/h", m)
		if (file == nil) == (len(bad) == 0) {
			t.Fatal(file, bad)
		}
		for _, p := range bad {
			if p.File == "" || p.Text == "" || p.Line < 0 || (p.Line == 0) != (p.Column == 0) || p.Line > strings.Count(text, "\n")+2 {
				t.Fatalf("%+v", p)
			}
		}
		addr, _ := netip.ParseAddr(from)
		q := &Query{Addr: addr, Local: !addr.IsValid(), Database: database, Role: role, Own: hosts}
		if m != nil {
			for _, one := range m.lines {
				if ok, _ := m.Allows(one.name, role, q); ok && one.system.word == "" {
					t.Fatal("nobody is let in")
				}
			}
		}
		if file == nil {
			return
		}
		r, err := file.Match(q)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil && (r.kind == localKind) != q.Local {
			t.Fatal(fmt.Sprint(r.Text()), q)
		}
	})
}
