package hba

import (
	"fmt"
	"strings"
)

// Method is how the clients of a rule prove who they are, in Postgres's words.
type Method string

// The methods that pgweir has. "ident" of a local rule is Peer, as in Postgres.
const (
	Trust    Method = "trust"
	Reject   Method = "reject"
	MD5      Method = "md5"
	Password Method = "password"
	SCRAM    Method = "scram-sha-256"
	Cert     Method = "cert"
	Peer     Method = "peer"
)

// CertCheck is what a rule asks of the client's certificate, beside its method.
type CertCheck string

// The values of clientcert.
const (
	NoCert     CertCheck = ""            // nothing
	VerifyCA   CertCheck = "verify-ca"   // that an authority that is trusted has signed it
	VerifyFull CertCheck = "verify-full" // and that its common name is the role
)

// kind is by what way clients of a rule come.
type kind string

const (
	localKind kind = "local"
	host      kind = "host"
	hostSSL   kind = "hostssl"
	hostNoSSL kind = "hostnossl"
	hostNoGSS kind = "hostnogssenc" // all: pgweir has no GSSAPI
)

// Rule is a line of a file. It is not changed once it is read.
type Rule struct {
	Number int // from 1, in the order in which they are tried
	File   string
	Line   int // from 1

	Method     Method
	Map        string    // of Cert and Peer: the map of system users to roles; "": the same name
	ClientCert CertCheck // of Cert always VerifyFull

	kind      kind
	databases []pattern
	roles     []pattern
	from      addresses
}

// Text is a rule as tables show it, in the columns of Postgres's pg_hba_file_rules.
type Text struct {
	Type             string
	Databases, Roles []string
	Address, Netmask string // "" where there is none
	Options          []string
}

// Text returns the rule's columns.
func (r *Rule) Text() Text {
	t := Text{Type: string(r.kind), Databases: words(r.databases), Roles: words(r.roles), Address: r.from.word}
	if r.from.reach == network {
		t.Address, t.Netmask = r.from.base.String(), r.from.mask.String()
	}
	if r.Map != "" {
		t.Options = append(t.Options, "map="+r.Map)
	}
	if r.ClientCert != NoCert {
		t.Options = append(t.Options, "clientcert="+string(r.ClientCert))
	}
	return t
}

// String names the rule by its place.
func (r *Rule) String() string { return fmt.Sprintf("%s:%d", r.File, r.Line) }

func words(list []pattern) []string {
	texts := make([]string, 0, len(list))
	for i := range list {
		texts = append(texts, list[i].word)
	}
	return texts
}

// asksForGroups reports whether a rule depends on what a role is a member of.
func (r *Rule) asksForGroups() bool {
	for i := range r.roles {
		if _, ok := r.roles[i].group(); ok {
			return true
		}
	}
	for i := range r.databases {
		if d := &r.databases[i]; d.is("samerole") || d.is("samegroup") {
			return true
		}
	}
	return false
}

// File is the rules of an hba file.
type File struct {
	Path  string
	Rules []Rule
}

// Load reads a file with all that it includes. With problems there is no file. maps is
// what the rules' map options are to be found in; nil: there is none.
func Load(path string, maps *Maps) (*File, []Problem) { return loadFile(local{}, path, maps) }

func loadFile(d disk, path string, maps *Maps) (*File, []Problem) {
	l := load(d, path)
	f := &File{Path: path}
	for i := range l.lines {
		r, bad := parseRule(&l.lines[i])
		if bad == nil && r.Map != "" && !maps.Has(r.Map) {
			bad = l.lines[i].problem("there is no map %q in the ident_file", r.Map)
		}
		if bad != nil {
			l.problems = append(l.problems, *bad)
			continue
		}
		r.Number = len(f.Rules) + 1
		f.Rules = append(f.Rules, r)
	}
	if len(f.Rules) == 0 && len(l.problems) == 0 {
		l.problems = append(l.problems, Problem{File: path, Text: "has no rules: nobody could log in"})
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return f, nil
}

// Uses reports whether a rule of the file has the method.
func (f *File) Uses(m Method) bool {
	for i := range f.Rules {
		if f.Rules[i].Method == m {
			return true
		}
	}
	return false
}

// AsksForGroups reports whether a rule depends on what roles are members of.
func (f *File) AsksForGroups() bool {
	for i := range f.Rules {
		if f.Rules[i].asksForGroups() {
			return true
		}
	}
	return false
}

// parseRule reads a line.
func parseRule(ln *line) (Rule, *Problem) {
	p := &parser{line: ln}
	number, _ := ln.where()
	r := Rule{File: ln.file, Line: number}
	p.kind(&r)
	r.databases = p.patterns("database")
	r.roles = p.patterns("role")
	if r.kind != localKind {
		p.address(&r)
	}
	p.method(&r)
	p.options(&r)
	return r, p.bad
}

// parser takes the fields of a line one by one, up to the first problem.
type parser struct {
	*line
	bad *Problem
}

// fail notes a problem unless there is one.
func (p *parser) fail(at spot, format string, args ...any) {
	if p.bad == nil {
		p.bad = at.problem(format, args...)
	}
}

// field takes the next field.
func (p *parser) field(what string) []token {
	if p.bad != nil {
		return nil
	}
	if len(p.fields) == 0 {
		p.fail(p.spot, "end of line before the %s", what)
		return nil
	}
	f := p.fields[0]
	p.fields = p.fields[1:]
	return f
}

// one takes a field of one word.
func (p *parser) one(what string) token {
	f := p.field(what)
	switch {
	case p.bad != nil:
		return token{}
	case len(f) > 1:
		p.fail(f[1].spot, "more than one %s", what)
		return token{}
	}
	return f[0]
}

func (p *parser) kind(r *Rule) {
	t := p.one("connection type")
	switch r.kind = kind(t.word); r.kind {
	case localKind, host, hostSSL, hostNoSSL, hostNoGSS:
	case "hostgssenc":
		p.fail(t.spot, "pgweir has no GSSAPI encryption: this rule would be for nobody")
	default:
		p.fail(t.spot, "invalid connection type %q: local, host, hostssl, hostnossl or hostnogssenc", t.word)
	}
}

func (p *parser) patterns(what string) (list []pattern) {
	for _, t := range p.field(what) {
		one, bad := patternOf(t)
		if bad != nil && p.bad == nil {
			p.bad = bad
		}
		list = append(list, one)
	}
	return list
}

func (p *parser) address(r *Rule) {
	t := p.one("address")
	if p.bad != nil || r.from.keyword(t) {
		return
	}
	slash, bad := r.from.number(t)
	if bad == nil && !slash {
		if t = p.one("IP mask"); p.bad == nil {
			bad = r.from.netmask(t)
		}
	}
	if p.bad == nil {
		p.bad = bad
	}
}

func (p *parser) method(r *Rule) {
	t := p.one("authentication method")
	r.Method = Method(t.word)
	if t.word == "ident" && r.kind == localKind {
		r.Method = Peer
	}
	switch r.Method {
	case Trust, Reject, MD5, Password, SCRAM:
	case Peer:
		if r.kind != localKind {
			p.fail(t.spot, "peer authentication is only supported on local sockets")
		}
	case Cert:
		if r.kind != hostSSL {
			p.fail(t.spot, "cert authentication is only supported on hostssl connections")
		}
		r.ClientCert = VerifyFull
	case "ident", "gss", "sspi", "pam", "bsd", "ldap", "radius", "oauth":
		p.fail(t.spot, "pgweir does not have the authentication method %q", t.word)
	default:
		p.fail(t.spot, "invalid authentication method %q", t.word)
	}
}

func (p *parser) options(r *Rule) {
	for p.bad == nil && len(p.fields) > 0 {
		for _, t := range p.field("option") {
			name, value, ok := strings.Cut(t.word, "=")
			if !ok {
				p.fail(t.spot, "authentication option not in name=value format: %s", t.word)
				return
			}
			p.option(r, t, name, value)
		}
	}
}

func (p *parser) option(r *Rule, t token, name, value string) {
	switch {
	case name == "map" && r.Method != Cert && r.Method != Peer:
		p.fail(t.spot, "the option map is for the methods cert and peer")
	case name == "map" && value == "":
		p.fail(t.spot, "the option map needs the name of a map")
	case name == "map":
		r.Map = value
	case name == "clientcert" && r.kind != hostSSL:
		p.fail(t.spot, "the option clientcert is for hostssl rules")
	case name == "clientcert" && r.Method == Cert && value == string(VerifyCA):
		p.fail(t.spot, "with cert, clientcert can only be verify-full")
	case name == "clientcert" && (value == string(VerifyCA) || value == string(VerifyFull)):
		r.ClientCert = CertCheck(value)
	case name == "clientcert":
		p.fail(t.spot, "clientcert is verify-ca or verify-full, not %q", value)
	case name == "clientname" && r.kind == hostSSL && value == "CN": // as it is anyway
	default:
		p.fail(t.spot, "pgweir does not have the authentication option %q", name)
	}
}
