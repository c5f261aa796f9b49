package endpoint

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
)

func TestURL(t *testing.T) {
	plain := URL{
		User: "app", Hosts: []Host{{"tcp", "db:5432"}}, Database: "shop", Encryption: usualEncryption(), TargetSessionAttrs: AnySession,
		KeepalivesIdle: 30, KeepalivesInterval: 10, KeepalivesCount: 3,
	}
	change := func(f func(*URL)) URL {
		u := plain
		f(&u)
		return u
	}
	hosts := func(addresses ...string) URL {
		return change(func(u *URL) {
			u.Hosts = nil
			for _, a := range addresses {
				network := "tcp"
				if strings.HasPrefix(a, "/") {
					network = "unix"
				}
				u.Hosts = append(u.Hosts, Host{network, a})
			}
		})
	}
	for text, want := range map[string]URL{
		"postgres://app@db/shop":                                        plain,
		"postgresql://app@db:5432/shop":                                 plain,
		"postgres://app@db:/shop":                                       plain,
		"postgres://app:@db/shop":                                       plain,
		"postgres:///?user=app&host=db&port=5432&dbname=shop":           plain,
		"postgres://app@db/shop?":                                       plain,
		"postgres://app@db/shop?&&":                                     plain,
		"postgres://app@db":                                             change(func(u *URL) { u.Database = "app" }),
		"postgres://app@db/":                                            change(func(u *URL) { u.Database = "app" }),
		"postgres://app@db/shop?sslmode=disable":                        change(func(u *URL) { u.Encryption.SSLMode = Disable }),
		"postgres://app:a%3ab@db/shop":                                  change(func(u *URL) { u.Password = values.NewSecret("a:b") }),
		"postgres://app:a:b@db/shop":                                    change(func(u *URL) { u.Password = values.NewSecret("a:b") }),
		"postgres://app:a+b@db/shop":                                    change(func(u *URL) { u.Password = values.NewSecret("a+b") }),
		"postgres://app@db/shop?password=a%26b":                         change(func(u *URL) { u.Password = values.NewSecret("a&b") }),
		"postgres://app@db/a%2Fb":                                       change(func(u *URL) { u.Database = "a/b" }),
		"postgres://app@db/shop?target_session_attrs=read-write":        change(func(u *URL) { u.TargetSessionAttrs = ReadWrite }),
		"postgres://app@db/shop?target_session_attrs=prefer-standby":    change(func(u *URL) { u.TargetSessionAttrs = PreferStandby }),
		"postgres://app@db/shop?keepalives_idle=5&keepalives_count=127": change(func(u *URL) { u.KeepalivesIdle, u.KeepalivesCount = 5, 127 }),
		"postgres://app@db/shop?keepalives_interval=0":                  change(func(u *URL) { u.KeepalivesInterval = 0 }),
		"postgres://app@[::1]:6000/shop":                                hosts("[::1]:6000"),
		"postgres://app@[::1]/shop":                                     hosts("[::1]:5432"),
		"postgres://app@10.1.2.3/shop":                                  hosts("10.1.2.3:5432"),
		"postgres://app@%2Fvar%2Frun:6000/shop":                         hosts("/var/run/.s.PGSQL.6000"),
		"postgres://app@/shop?host=/var/run":                            hosts("/var/run/.s.PGSQL.5432"),
		"postgres://app@/shop?host=/a b%2Bc":                            hosts("/a b+c/.s.PGSQL.5432"),
		"postgres://app@ignored/shop?host=/run":                         hosts("/run/.s.PGSQL.5432"),
		"postgres://app@ignored:6000/shop?host=/run":                    hosts("/run/.s.PGSQL.6000"),
		"postgres://app@a,b/shop":                                       hosts("a:5432", "b:5432"),
		"postgres://app@a:1,b/shop":                                     hosts("a:1", "b:5432"),
		"postgres://app@a,[::1]:2,10.0.0.3:3/shop":                      hosts("a:5432", "[::1]:2", "10.0.0.3:3"),
		"postgres://app@a,b/shop?port=7":                                hosts("a:7", "b:7"),
		"postgres://app@a,b/shop?port=7,8":                              hosts("a:7", "b:8"),
		"postgres://app@/shop?host=a,/run&port=7,":                      hosts("a:7", "/run/.s.PGSQL.5432"),
		"postgres://app@%2Frun,b:9/shop":                                hosts("/run/.s.PGSQL.5432", "b:9"),
	} {
		var got URL
		if problem := PostgresURL(&got).Set(literalText(text)); problem != nil {
			t.Errorf("%s: %s", text, problem.Message)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// literalText is a string of a file.
func literalText(text string) values.Value {
	return values.Value{Node: document.Node{Kind: document.Text, Text: text}}
}

func TestURLIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "begins with postgres://",
		"http://app@db/shop":                 "begins with postgres://",
		"app@db/shop":                        "begins with postgres://",
		"postgres://":                        "names no user",
		"postgres://app@":                    "names no host",
		"postgres://app@/shop":               "names no host",
		"postgres://app@a,/shop":             "names no host",
		"postgres://app@,/shop":              "names no host",
		"postgres://app@a,b/shop?port=1,2,3": "2 hosts and 3 ports",
		"postgres://app@a:1,b:2/shop?host=c": "1 hosts and 2 ports",
		"postgres://app@a,b:x/shop":          "the port",
		"postgres://app@%2Fa%2Cb/shop":       "neither a name",
		"postgres://app@" + strings.Repeat("a,", 16) + "a/x":  "more than 16 hosts",
		"postgres://app@db/shop?target_session_attrs=master":  "no value of libpq",
		"postgres://app@db/shop?target_session_attrs=":        "no value of libpq",
		"postgres://app@db/shop?keepalives_idle=-1":           "a number from 0 to 32767",
		"postgres://app@db/shop?keepalives_count=128":         "a number from 0 to 127",
		"postgres://app@db/shop?keepalives=1":                 "not a parameter here",
		"postgres://app@db/shop?connect_timeout=3":            "not a parameter here",
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
		"postgres://app@db/shop?sslmode=":                     "no such sslmode",
		"postgres://app@db/shop?sslmode=verify":               "no such sslmode",
		"postgres://app@db/shop?options=-c%20x":               "options is not a parameter here",
		"postgres://app@db/shop?hostaddr=10.0.0.1":            "hostaddr is not a parameter here",
		"postgres://app@db/shop?what=x":                       "is not a parameter",
		"postgres://app@db/shop?host=%20":                     "neither a name",
		"postgres://app@/x?host=/" + strings.Repeat("d", 107): "longer than 107",
	} {
		got := URL{User: "untouched"}
		problem := PostgresURL(&got).Set(literalText(text))
		if problem == nil || !strings.Contains(problem.Message, want) {
			t.Errorf("%q: %+v, want %q", text, problem, want)
		}
		if got.User != "untouched" {
			t.Errorf("%q was refused and stored", text)
		}
	}
}

// What libpq knows and pgweir does not is no misspelling, and there is another way.
func TestLibpqParametersHaveAdvice(t *testing.T) {
	const all = "hostaddr load_balance_hosts application_name fallback_application_name client_encoding options replication passfile" +
		" service require_auth sslcrl sslcrldir sslpassword sslcertmode sslcompression gssencmode gsslib gssdelegation krbsrvname" +
		" connect_timeout tcp_user_timeout keepalives"
	for key := range strings.FieldsSeq(all) {
		problem := PostgresURL(&URL{}).Set(literalText("postgres://app@db/shop?" + key + "=secret"))
		if problem == nil || problem.Message != key+" is not a parameter here" || problem.Advice == "" || strings.Contains(problem.Advice, "secret") {
			t.Errorf("%s: %+v", key, problem)
		}
	}
}

// A client of Postgres must go where we go: pgconn has libpq's rules and has been compared
// with libpq.
func TestURLAgreesWithPgconn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 4).Draw(t, "hosts")
		u := URL{
			User:               rapid.StringMatching(`[a-z@:/?#%& é]{1,20}`).Draw(t, "user"),
			Password:           values.NewSecret(rapid.StringMatching(`[a-z@:/?#%&+ é]{0,20}`).Draw(t, "password")),
			Database:           rapid.StringMatching(`[a-z@:/?#%&+ é]{1,20}`).Draw(t, "database"),
			Encryption:         someEncryption(t),
			TargetSessionAttrs: rapid.SampledFrom([]SessionAttrs{AnySession, ReadWrite, ReadOnly, Primary, Standby, PreferStandby}).Draw(t, "attrs"),
			KeepalivesIdle:     keepalivesIdle, KeepalivesInterval: keepalivesInterval, KeepalivesCount: keepalivesCount,
		}
		for range count {
			host := rapid.SampledFrom([]string{"db", "10.0.0.1", "::1", "/var/run/postgresql"}).Draw(t, "host")
			port := rapid.IntRange(1, 65535).Draw(t, "port")
			h := Host{"tcp", net.JoinHostPort(host, strconv.Itoa(port))}
			if strings.HasPrefix(host, "/") {
				h = Host{"unix", host + "/.s.PGSQL." + strconv.Itoa(port)}
			}
			u.Hosts = append(u.Hosts, h)
		}
		text := u.Reveal()
		var ours URL
		if problem := PostgresURL(&ours).Set(literalText(text)); problem != nil {
			t.Fatalf("%s: %s", text, problem.Message)
		}
		if diff := cmp.Diff(u, ours); diff != "" {
			t.Fatalf("%s (-written +read):\n%s", text, diff)
		}
		theirs, err := pgconn.ParseConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if theirs.User != u.User || theirs.Password != u.Password.Reveal() || theirs.Database != u.Database {
			t.Fatalf("%s: pgconn reads %q %q %q", text, theirs.User, theirs.Password, theirs.Database)
		}
		their := []Host{hostOf(theirs.Host, theirs.Port)}
		for _, f := range theirs.Fallbacks {
			their = append(their, hostOf(f.Host, f.Port))
		}
		if u.TargetSessionAttrs != PreferStandby && !cmp.Equal(their, u.Hosts) { // which pgconn tries twice
			t.Fatalf("%s: pgconn goes to %v", text, their)
		}
	})
}

// someEncryption is one whose files need not be there for pgconn.
func someEncryption(t *rapid.T) Encryption {
	e := usualEncryption()
	e.SSLMode = rapid.SampledFrom([]SSLMode{Disable, Require}).Draw(t, "sslmode")
	e.NoSNI = rapid.Bool().Draw(t, "no SNI")
	e.Direct = e.SSLMode == Require && rapid.Bool().Draw(t, "direct")
	e.MinVersion = rapid.SampledFrom(tlsVersions()).Draw(t, "oldest")
	e.MaxVersion = rapid.SampledFrom([]string{"", "TLSv1.3"}).Draw(t, "newest")
	e.ChannelBinding = rapid.SampledFrom([]string{"disable", "prefer"}).Draw(t, "binding")
	return e
}

// hostOf is a host of pgconn's as ours.
func hostOf(host string, port uint16) Host {
	network, address := pgconn.NetworkAddress(host, port)
	return Host{network, address}
}

func TestURLInPublic(t *testing.T) {
	u := URL{
		User: "a@b", Password: values.NewSecret("hunter2"), Hosts: []Host{{"tcp", "[::1]:5432"}, {"tcp", "b:1"}}, Database: "x y", Encryption: usualEncryption(),
		TargetSessionAttrs: Primary, KeepalivesIdle: 9, KeepalivesInterval: 10, KeepalivesCount: 3,
	}
	u.Encryption.SSLMode, u.Encryption.RootCert = VerifyFull, "/etc/a &.crt"
	if got, want := u.String(), "postgres://a%40b:****@[::1]:5432,b:1/x%20y?sslmode=verify-full&sslrootcert=%2Fetc%2Fa%20%26.crt&target_session_attrs=primary&keepalives_idle=9"; got != want {
		t.Errorf("String %s, want %s", got, want)
	}
	if got, want := u.Reveal(), "postgres://a%40b:hunter2@[::1]:5432,b:1/x%20y?sslmode=verify-full&sslrootcert=%2Fetc%2Fa%20%26.crt&target_session_attrs=primary"; got != want {
		t.Errorf("Reveal %s, want %s", got, want)
	}
}
