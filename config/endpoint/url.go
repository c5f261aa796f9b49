package endpoint

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
)

// URL says how to reach one Postgres cluster and as whom to log in there.
type URL struct {
	User               string // never empty
	Password           values.Secret
	Hosts              []Host // at least one, in the order of preference
	Database           string // never empty; like libpq the user's name if the URL has none
	Encryption         Encryption
	TargetSessionAttrs SessionAttrs

	KeepalivesIdle     int // seconds of silence before the first TCP keepalive; 0 leaves it to the kernel
	KeepalivesInterval int // seconds between them; 0 as above
	KeepalivesCount    int // how many may be lost; 0 as above
}

// What keepalives are unless the URL says.
const (
	keepalivesIdle     = 30
	keepalivesInterval = 10
	keepalivesCount    = 3
)

// String is the URL with four asterisks for the password.
func (u URL) String() string { return u.text(u.Password.String(), true) }

// Reveal is the URL with its password, for handing it to a client of Postgres. It leaves
// out the keepalives, which not every client knows.
func (u URL) Reveal() string { return u.text(u.Password.Reveal(), false) }

// full is the URL with its password and all else.
func (u URL) full() string { return u.text(u.Password.Reveal(), true) }

// text is the URL with that password, and with what is only for pgweir.
func (u URL) text(password string, own bool) string {
	login := url.User(u.User).String()
	switch {
	case password == document.Hidden:
		login += ":" + document.Hidden
	case password != "":
		login = url.UserPassword(u.User, password).String()
	}
	place, parameters := u.places()
	parameters = append([]string{"sslmode=" + string(u.Encryption.SSLMode)}, parameters...)
	parameters = append(parameters, u.Encryption.parameters()...)
	if u.TargetSessionAttrs != AnySession {
		parameters = append(parameters, "target_session_attrs="+string(u.TargetSessionAttrs))
	}
	for _, p := range u.keepalives() {
		if own && *p.target != p.usual {
			parameters = append(parameters, p.name+"="+strconv.Itoa(*p.target))
		}
	}
	return "postgres://" + login + "@" + place + "/" + url.PathEscape(u.Database) + "?" + strings.Join(parameters, "&")
}

// keepalive is one of the parameters for keepalives.
type keepalive struct {
	name   string
	target *int
	usual  int
	most   int // for the kernel
}

// keepalives are the three of them.
func (u *URL) keepalives() []keepalive {
	return []keepalive{
		{"keepalives_idle", &u.KeepalivesIdle, keepalivesIdle, 32767},
		{"keepalives_interval", &u.KeepalivesInterval, keepalivesInterval, 32767},
		{"keepalives_count", &u.KeepalivesCount, keepalivesCount, 127},
	}
}

// PostgresURL is a connection URL. Its text is a secret: no complaint repeats any of it but
// the names of parameters and what cannot belong to the password.
func PostgresURL(target *URL) values.Type {
	k := values.Type{
		Admits: "postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full",
		Get:    func() string { return values.Quote(target.String()) },
		Reveal: func() string { return values.Quote(target.full()) },
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind != document.Text {
			return &values.Complaint{Message: "is not a URL", Advice: urlShape}
		}
		p := urlParser{text: v.Text, dir: v.Dir}
		p.url = URL{Encryption: usualEncryption(), TargetSessionAttrs: AnySession}
		for _, k := range p.url.keepalives() {
			*k.target = k.usual
		}
		p.parse()
		if p.problems == nil {
			*target = p.url
		}
		return p.problems
	}
	return k
}

// urlShape is the general advice.
const urlShape = "Write postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full."

// urlParser reads a URL as libpq does (user before the first @, then hosts up to the next
// / or ?), because net/url repeats what it refuses, and accepts less.
type urlParser struct {
	text     string
	dir      string // of the configuration
	url      URL
	names    []piece // hosts, and
	ports    []piece // their ports: one for all or one for each
	problems *values.Complaint

	sslModeGiven bool
}

// complain notes a problem at a range of the text.
func (p *urlParser) complain(from, to int, message, advice string) {
	p.problems = p.problems.And(&values.Complaint{Message: message, Advice: advice, At: document.Span{From: from, To: max(to, from+1)}})
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
		p.url.Password = values.NewSecret(p.decode(user+1, to, "the password"))
	}
}

// encodeAdvice helps with a password that ended up as host or port.
const encodeAdvice = "A / ? # @ : or % within user or password is written %2F %3F %23 %40 %3A %25."

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
	case "host":
		p.hostList(text, from, to)
	case "port":
		p.ports = nil
		for port := range strings.SplitSeq(text, ",") {
			p.ports = append(p.ports, piece{port, from, to})
		}
	case "target_session_attrs":
		p.sessionAttrs(text, from, to)
	case "keepalives_idle", "keepalives_interval", "keepalives_count":
		p.keepalive(key, text, from, to)
	case "user":
		p.url.User = text
	case "password":
		p.url.Password = values.NewSecret(text)
	case "dbname":
		p.url.Database = text
	default:
		if slices.Contains(secureParameters(), key) {
			p.secure(key, text, from, to)
			return
		}
		p.unknown(key, at, to)
	}
}

// sessionAttrs reads libpq's target_session_attrs.
func (p *urlParser) sessionAttrs(text string, from, to int) {
	words := []SessionAttrs{AnySession, ReadWrite, ReadOnly, Primary, Standby, PreferStandby}
	if slices.Contains(words, SessionAttrs(text)) {
		p.url.TargetSessionAttrs = SessionAttrs(text)
		return
	}
	advice := "Write any, read-write, read-only, primary, standby or prefer-standby."
	if near := values.Nearest(text, words); near != "" {
		advice = "Did you mean " + string(near) + "?"
	}
	p.complain(from, to, "target_session_attrs is no value of libpq", advice)
}

// keepalive reads a number of seconds or keepalives.
func (p *urlParser) keepalive(key, text string, from, to int) {
	for _, k := range p.url.keepalives() {
		if k.name != key {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > k.most {
			p.complain(from, to, key+" is not a number from 0 to "+strconv.Itoa(k.most), "")
			return
		}
		*k.target = n
	}
}

// printableKey bounds what an error repeats of a parameter's name.
func printableKey(key string) string {
	if len(key) > 40 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return "a parameter"
	}
	return key
}

// complete fills in what libpq would, and checks what has to be there.
func (p *urlParser) complete() {
	right := p.problems == nil
	if right && p.url.User == "" {
		p.complain(0, len(p.text), "names no user", "Write postgres://USER@HOST/DATABASE.")
	}
	if right {
		p.checkSecure()
	}
	p.pair(right)
	if p.problems != nil {
		return
	}
	if p.url.Database == "" {
		p.url.Database = p.url.User
	}
	for _, name := range []string{p.url.User, p.url.Database} {
		if !values.IsName(name, 63) {
			p.complain(0, len(p.text), "has a user or a database that Postgres could not have: longer than 63 bytes, or with control characters", "")
		}
	}
}
