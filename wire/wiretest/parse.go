package wiretest

import (
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

type kind uint8

const (
	kSelect     kind = iota + 1 // select N
	kRows                       // rows N K
	kNonce                      // nonce X
	kSleep                      // sleep MS
	kSleepFail                  // sleepfail MS
	kInsert                     // insert N
	kFail                       // fail CODE
	kMissing                    // select * from X: fails when it is analysed
	kNotice                     // notice T
	kWhoami                     // whoami [all]
	kSetConfig                  // select set_config(...), ...
	kShow                       // show name
	kSet                        // set [local] name = value
	kReset                      // reset name; name "" is all
	kSetTx                      // set transaction ...
	kNothing                    // accepted without an effect
	kDiscard                    // discard all
	kDeallocate                 // deallocate name; name "" is all
	kCloseAll                   // close all
	kListen                     // listen c
	kUnlisten                   // unlisten c; name "" is all
	kCopyIn                     // copy t from stdin
	kCopyOut                    // copy t to stdout N K
	kPrepare                    // prepare q as select N
	kExecute                    // execute q
	kTemp                       // create temp table t [on commit drop]
	kDrop                       // drop table t; t "" is discard temp
	kDeclare                    // declare c cursor with hold for select N
	kClose                      // close c
	kLock                       // select pg_advisory_lock(N) and its kin
	kLeft                       // left: what the session has left
	kBegin
	kCommit
	kRollback
	kSavepoint
	kRelease
	kRollbackTo
)

// stmt is a parsed statement. It is immutable: prepared statements share it.
type stmt struct {
	kind    kind
	id      string
	text    string
	tag     string // of CommandComplete, without a count
	n, k    int    // counts, sizes, milliseconds
	name    string // folded, if it is a parameter's
	typed   string // a parameter's name as it was written
	value   string
	param   int  // number of the parameter that stands for value; 0 = none
	local   bool // SET LOCAL
	def     bool // SET ... TO DEFAULT
	chain   bool
	fails   bool // COPY FROM STDIN that fails at message n
	modes   txModes
	configs []setConfig
	params  int // parameters used
}

// setConfig is one call of set_config.
type setConfig struct {
	name, value string
	param       int
	null, local bool
}

// txModes are the transaction modes that matter to the fake.
type txModes struct {
	given      bool
	isolation  string // "" = not named
	access     string // "read only", "read write" or ""
	deferrable bool   // named, in one sense or the other
}

// isTx says that the statement controls transactions.
func (s *stmt) isTx() bool { return s.kind >= kBegin }

// exitsTx says that the statement may run in a failed transaction.
func (s *stmt) exitsTx() bool {
	return s.kind == kCommit || s.kind == kRollback || s.kind == kRollbackTo
}

// optimizable says that Postgres plans the statement, for which it takes a
// snapshot already when it parses.
func (s *stmt) optimizable() bool {
	switch s.kind {
	case kSelect, kRows, kNonce, kSleep, kInsert, kMissing, kWhoami, kSetConfig, kLock, kLeft:
		return true
	}
	return false
}

// snapshots says that executing the statement takes a snapshot.
func (s *stmt) snapshots() bool {
	switch s.kind {
	case kShow, kSet, kReset, kSetTx, kNothing, kListen, kUnlisten:
		return false
	}
	return !s.isTx()
}

// timed says that a cancel request may strike the statement.
func (s *stmt) timed() bool {
	switch s.kind {
	case kSelect, kRows, kNonce, kSleep, kSleepFail, kInsert, kCopyIn, kCopyOut:
		return true
	}
	return false
}

// parse parses a text that may hold several statements. An error anywhere
// means that none of them runs.
func parse(text string) ([]*stmt, *wire.Error) {
	sentences, err := lex(text)
	if err != nil {
		return nil, err
	}
	var out []*stmt
	for i := range sentences {
		p := &parser{t: sentences[i].tokens, s: &stmt{id: sentences[i].id, text: sentences[i].text}}
		if !p.statement() || p.i < len(p.t) {
			return nil, p.syntax()
		}
		out = append(out, p.s)
	}
	return out, nil
}

// parser reads one sentence by recursive descent. A method that fails leaves i
// at the token that did not fit.
type parser struct {
	t []token
	i int
	s *stmt
}

func (p *parser) syntax() *wire.Error {
	if p.i >= len(p.t) {
		return newError("42601", "syntax error at end of input")
	}
	return newError("42601", "syntax error at or near \"%s\"", p.t[p.i].text)
}

func (p *parser) peek() token {
	if p.i < len(p.t) {
		return p.t[p.i]
	}
	return token{}
}

// words takes the given words if all of them come next.
func (p *parser) words(words string) bool {
	fields := strings.Fields(words)
	for n, w := range fields {
		if p.i+n >= len(p.t) || p.t[p.i+n].kind != tokWord || p.t[p.i+n].text != w {
			return false
		}
	}
	p.i += len(fields)
	return true
}

func (p *parser) op(c string) bool {
	if t := p.peek(); t.kind != tokOp || t.text != c {
		return false
	}
	p.i++
	return true
}

func (p *parser) number(n *int) bool {
	t := p.peek()
	v, err := strconv.Atoi(t.text)
	if t.kind != tokNumber || err != nil || v > 1<<24 { // a row of 16 MB is enough
		return false
	}
	*n = v
	p.i++
	return true
}

// ident takes an identifier, quoted or not.
func (p *parser) ident(s *string) bool {
	t := p.peek()
	if t.kind != tokWord && t.kind != tokIdent {
		return false
	}
	*s = t.text
	p.i++
	return true
}

// literal takes a word, string, number, identifier or parameter as a value.
func (p *parser) literal(s *string, param *int) bool {
	t := p.peek()
	switch t.kind {
	case tokEnd, tokOp:
		return false
	case tokParam:
		if param == nil {
			return false
		}
		*param, _ = strconv.Atoi(t.text)
		p.s.params = max(p.s.params, *param)
	default:
		*s = t.text
	}
	p.i++
	return true
}

func (p *parser) is(k kind, tag string) bool {
	p.s.kind, p.s.tag = k, tag
	return true
}

func (p *parser) statement() bool {
	if p.t[0].kind != tokWord {
		return false
	}
	p.i++
	s := p.s
	switch p.t[0].text {
	case "select":
		return p.selects()
	case "rows":
		return p.is(kRows, "SELECT") && p.number(&s.n) && p.number(&s.k)
	case "nonce":
		return p.is(kNonce, "SELECT") && p.literal(&s.value, &s.param)
	case "sleep":
		s.name = "pg_sleep"
		return p.is(kSleep, "SELECT") && p.number(&s.n)
	case "sleepfail":
		return p.is(kSleepFail, "DO") && p.number(&s.n)
	case "insert":
		return p.is(kInsert, "INSERT 0") && p.number(&s.n)
	case "fail":
		ok := p.is(kFail, "DO") && p.literal(&s.value, nil)
		s.value = strings.ToUpper(s.value)
		return ok
	case "notice":
		return p.is(kNotice, "DO") && p.literal(&s.value, nil)
	case "whoami":
		s.fails = p.words("all")
		return p.is(kWhoami, "SELECT")
	case "copy", "copyfail", "copybs":
		return p.copies()
	case "set", "reset", "show":
		return p.setting()
	default:
		return p.session() || p.transaction()
	}
}

func (p *parser) selects() bool {
	s := p.s
	switch {
	case p.number(&s.n):
		return p.is(kSelect, "SELECT")
	case p.op("*"):
		return p.is(kMissing, "SELECT") && p.words("from") && p.ident(&s.name)
	case p.choice(&s.name, lockNames...):
		return p.is(kLock, "SELECT") && p.op("(") && (s.name == unlockAll || p.number(&s.n)) && p.op(")")
	}
	p.is(kSetConfig, "SELECT")
	for {
		var c setConfig
		if !p.config(&c) {
			return false
		}
		s.configs = append(s.configs, c)
		if !p.op(",") {
			return true
		}
	}
}

// config reads one call of set_config.
func (p *parser) config(c *setConfig) bool {
	if p.words("pg_catalog") && !p.op(".") {
		return false
	}
	if !p.words("set_config") || !p.op("(") || !p.literal(&c.name, nil) || !p.op(",") {
		return false
	}
	c.null = p.words("null")
	if !c.null && !p.literal(&c.value, &c.param) {
		return false
	}
	if !p.op(",") {
		return false
	}
	c.local = p.words("true")
	return (c.local || p.words("false")) && p.op(")")
}

func (p *parser) copies() bool {
	s := p.s
	switch p.t[0].text {
	case "copyfail":
		s.fails = true
		return p.number(&s.n) && p.words("from stdin") && p.is(kCopyIn, "COPY")
	case "copybs":
		s.fails = true
		return p.words("from stdin") && p.is(kCopyIn, "COPY")
	}
	if !p.ident(&s.name) {
		return false
	}
	if p.words("from stdin") {
		return p.is(kCopyIn, "COPY")
	}
	return p.words("to stdout") && p.number(&s.n) && p.number(&s.k) && p.is(kCopyOut, "COPY")
}

// session reads the statements about the session's own things.
func (p *parser) session() bool {
	s := p.s
	switch p.t[0].text {
	case "discard":
		if p.words("temp") {
			return p.is(kDrop, "DISCARD TEMP")
		}
		return p.is(kDiscard, "DISCARD ALL") && p.words("all")
	case "close":
		if p.words("all") {
			return p.is(kCloseAll, "CLOSE CURSOR ALL")
		}
		return p.is(kClose, "CLOSE CURSOR") && p.ident(&s.name)
	case "prepare":
		return p.is(kPrepare, "PREPARE") && p.ident(&s.name) && p.words("as select") && p.number(&s.n)
	case "execute":
		return p.is(kExecute, "SELECT") && p.ident(&s.name)
	case "create":
		ok := p.words("temp table") && p.is(kTemp, "CREATE TABLE") && p.ident(&s.name)
		s.local = p.words("on commit drop")
		return ok
	case "drop":
		return p.words("table") && p.is(kDrop, "DROP TABLE") && p.ident(&s.name)
	case "declare":
		return p.is(kDeclare, "DECLARE CURSOR") && p.ident(&s.name) && p.words("cursor with hold for select") && p.number(&s.n)
	case "left":
		return p.is(kLeft, "SELECT")
	case "deallocate":
		p.words("prepare")
		if p.words("all") {
			return p.is(kDeallocate, "DEALLOCATE ALL")
		}
		return p.is(kDeallocate, "DEALLOCATE") && p.ident(&s.name)
	case "listen":
		return p.is(kListen, "LISTEN") && p.ident(&s.name)
	case "unlisten":
		return p.is(kUnlisten, "UNLISTEN") && (p.op("*") || p.ident(&s.name))
	}
	return false
}
