package config

import (
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// URL says how to reach one Postgres and as whom to log in there.
type URL struct {
	User     string // never empty
	Password Secret
	Host     string // a name, an address, or the absolute directory of a Unix socket
	Port     int    // 1 to 65535
	Database string // never empty; like libpq the user's name if the URL has none
	SSLMode  SSLMode
}

// IsUnix reports whether Host is the directory of a Unix socket.
func (u URL) IsUnix() bool { return strings.HasPrefix(u.Host, "/") }

// Network is the network for [net.Dial]: "tcp" or "unix".
func (u URL) Network() string {
	if u.IsUnix() {
		return "unix"
	}
	return "tcp"
}

// Address is the address for [net.Dial].
func (u URL) Address() string {
	if u.IsUnix() {
		return filepath.Join(u.Host, ".s.PGSQL."+strconv.Itoa(u.Port))
	}
	return net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
}

// String is the URL with four asterisks for the password.
func (u URL) String() string {
	login := url.User(u.User).String()
	if u.Password.IsSet() {
		login += ":" + u.Password.String()
	}
	return "postgres://" + login + u.rest()
}

// Reveal is the URL with its password, for handing it to a client of Postgres.
func (u URL) Reveal() string {
	login := url.User(u.User)
	if u.Password.IsSet() {
		login = url.UserPassword(u.User, u.Password.Reveal())
	}
	return "postgres://" + login.String() + u.rest()
}

// rest is what follows the login.
func (u URL) rest() string {
	tail := "/" + url.PathEscape(u.Database) + "?sslmode=" + string(u.SSLMode)
	if u.IsUnix() {
		return "@" + tail + "&host=" + url.QueryEscape(u.Host) + "&port=" + strconv.Itoa(u.Port)
	}
	return "@" + u.Address() + tail
}

// postgresURL is a connection URL. Its text is a secret: no complaint repeats any of it but
// the names of parameters and what cannot belong to the password.
func postgresURL(target *URL) kind {
	k := kind{admits: "postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable"}
	k.set = func(v value) *complaint {
		if v.kind != unstable.String {
			return &complaint{message: "is not a URL", advice: urlShape}
		}
		p := urlParser{text: v.text}
		p.url = URL{Port: 5432, SSLMode: Prefer}
		p.parse()
		if p.problems == nil {
			*target = p.url
		}
		return p.problems
	}
	return k
}

// urlShape is the general advice.
const urlShape = "Write postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable."

// urlParser reads a URL as libpq does (user before the first @, then hosts up to the next
// / or ?), because net/url repeats what it refuses, and accepts less.
type urlParser struct {
	text     string
	url      URL
	problems *complaint
}

// complain notes a problem at a range of the text.
func (p *urlParser) complain(from, to int, message, advice string) {
	p.problems = p.problems.and(&complaint{message: message, advice: advice, at: span{from, max(to, from+1)}})
}

func (p *urlParser) parse() {
	scheme, rest, found := strings.Cut(p.text, "://")
	if !found || scheme != "postgres" && scheme != "postgresql" {
		p.complain(0, len(p.text), "is not a URL that begins with postgres://", urlShape)
		return
	}
	at := len(scheme) + len("://")
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		p.login(at, at+i)
		at += i + 1
	}
	hosts := at + untilAny(p.text[at:], "/?")
	p.hosts(at, hosts)
	at = hosts
	if strings.HasPrefix(p.text[at:], "/") {
		end := at + 1 + untilAny(p.text[at+1:], "?")
		p.url.Database = p.decode(at+1, end, "the database's name")
		at = end
	}
	if strings.HasPrefix(p.text[at:], "?") {
		p.parameters(at + 1)
	}
	p.complete()
}

// untilAny is the length of the text before the first of the characters.
func untilAny(text, characters string) int {
	if i := strings.IndexAny(text, characters); i >= 0 {
		return i
	}
	return len(text)
}

// decode undoes the percent-encoding of a range.
func (p *urlParser) decode(from, to int, what string) string {
	text, err := url.PathUnescape(p.text[from:to])
	if err != nil {
		p.complain(from, to, what+" has a % that is not followed by two hexadecimal digits", "Write %25 for a percent sign.")
		return ""
	}
	if strings.ContainsRune(text, 0) {
		p.complain(from, to, what+" has a zero byte", "")
		return ""
	}
	return text
}

// login reads user and password.
func (p *urlParser) login(from, to int) {
	user := from + untilAny(p.text[from:to], ":")
	p.url.User = p.decode(from, user, "the user")
	if user < to {
		p.url.Password = NewSecret(p.decode(user+1, to, "the password"))
	}
}

// hosts reads the one host that this version goes to.
func (p *urlParser) hosts(from, to int) {
	if i := strings.IndexByte(p.text[from:to], ','); i >= 0 {
		p.complain(from+i, to, "more than one host is "+notYet, "Name the primary only.")
		return
	}
	end := to
	if i := strings.LastIndexByte(p.text[from:to], ':'); i >= 0 && !strings.Contains(p.text[from+i:to], "]") {
		end = from + i
		p.url.Port = p.port(end+1, to)
	}
	host := p.decode(from, end, "the host")
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
		if ip := net.ParseIP(host); ip == nil || inner == host {
			p.complain(from, end, "the host is not an IPv6 address in brackets", "Write [::1].")
		}
	} else if host != "" && !strings.HasPrefix(host, "/") && !isHostname(host) {
		p.complain(from, end, "the host is neither a name nor an address nor a directory", encodeAdvice)
	}
	p.url.Host = host
}

// encodeAdvice helps with a password that ended up as host or port.
const encodeAdvice = "A / ? # @ : or % within user or password is written %2F %3F %23 %40 %3A %25."

// port reads a port; an empty one is the default, as in libpq.
func (p *urlParser) port(from, to int) int {
	if from == to {
		return 5432
	}
	n, err := strconv.ParseUint(p.text[from:to], 10, 16)
	if err != nil || n == 0 {
		p.complain(from, to, "the port is not a number from 1 to 65535", encodeAdvice)
	}
	return int(n)
}

// parameters reads what follows the question mark.
func (p *urlParser) parameters(from int) {
	for from <= len(p.text) {
		to := from + untilAny(p.text[from:], "&")
		equals := from + untilAny(p.text[from:to], "=")
		if to > from {
			if equals == to {
				p.complain(from, to, "a parameter has no value", "Write name=value.")
			} else {
				p.parameter(p.text[from:equals], from, equals+1, to)
			}
		}
		from = to + 1
	}
}

// parameter reads one of them.
func (p *urlParser) parameter(key string, at, from, to int) {
	text := p.decode(from, to, "the value of "+printableKey(key))
	switch key {
	case "sslmode":
		p.sslMode(text, from, to)
	case "host":
		if !strings.HasPrefix(text, "/") && !isHostname(text) && net.ParseIP(text) == nil {
			p.complain(from, to, "the host is neither a name nor an address nor a directory", "")
		}
		p.url.Host = text
	case "port":
		p.url.Port = p.port(from, to)
	case "user":
		p.url.User = text
	case "password":
		p.url.Password = NewSecret(text)
	case "dbname":
		p.url.Database = text
	default:
		p.unknown(key, at, to)
	}
}

// sslMode reads libpq's sslmode.
func (p *urlParser) sslMode(text string, from, to int) {
	switch mode := SSLMode(text); mode {
	case Disable, Prefer:
		p.url.SSLMode = mode
	case "allow", "require", "verify-ca", "verify-full":
		p.complain(from, to, "sslmode="+text+" is "+notYet, "This version connects in clear: sslmode=disable or prefer.")
	default:
		p.complain(from, to, "sslmode is neither disable nor prefer", "")
	}
}

// unknown complains about a parameter that means nothing here.
func (p *urlParser) unknown(key string, from, to int) {
	key = printableKey(key)
	switch {
	case key == "connect_timeout":
		p.complain(from, to, key+" is not a parameter here", `Write server_connect_timeout = "5s" below the URL.`)
	case strings.HasPrefix(key, "tcp_") || strings.HasPrefix(key, "keepalives"):
		p.complain(from, to, key+" is not a parameter here", `Write tcp_user_timeout = "30s" below the URL, or leave it out.`)
	case isLibpqParameter(key):
		p.complain(from, to, key+" is "+notYet, "Leave it out.")
	default:
		advice := "Leave it out; the parameters are sslmode, host, port, user, password and dbname."
		if near := Nearest(key, []string{"sslmode", "host", "port", "user", "password", "dbname"}); near != "" {
			advice = "Did you mean " + near + "?"
		}
		p.complain(from, to, key+" is not a parameter of a connection", advice)
	}
}

// printableKey bounds what an error repeats of a parameter's name.
func printableKey(key string) string {
	if len(key) > 40 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return "a parameter"
	}
	return key
}

// isLibpqParameter reports whether libpq would know it and a later version will.
func isLibpqParameter(key string) bool {
	switch key {
	case "hostaddr", "target_session_attrs", "options", "application_name", "client_encoding",
		"sslcert", "sslkey", "sslrootcert", "sslcrl", "sslsni", "sslnegotiation", "sslpassword",
		"channel_binding", "require_auth", "passfile", "service", "load_balance_hosts",
		"gssencmode", "krbsrvname", "fallback_application_name", "replication":
		return true
	}
	return false
}

// complete fills in what libpq would, and checks what has to be there.
func (p *urlParser) complete() {
	if p.problems != nil {
		return
	}
	if p.url.User == "" {
		p.complain(0, len(p.text), "names no user", "Write postgres://USER@HOST/DATABASE.")
	}
	if p.url.Host == "" {
		p.complain(0, len(p.text), "names no host", "Write postgres://USER@HOST/DATABASE, or ?host=/DIRECTORY for a Unix socket.")
	}
	if p.url.Database == "" {
		p.url.Database = p.url.User
	}
	if socket := p.url.Address(); p.url.IsUnix() && len(socket) > longestSocket {
		p.complain(0, len(p.text), "the socket's path is longer than "+strconv.Itoa(longestSocket)+" bytes", "")
	}
	for _, name := range []string{p.url.User, p.url.Database} {
		if len(name) > 63 || strings.ContainsFunc(name, isControl) {
			p.complain(0, len(p.text), "has a user or a database that Postgres could not have: longer than 63 bytes, or with control characters", "")
		}
	}
}
