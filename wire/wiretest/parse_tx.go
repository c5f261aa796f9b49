package wiretest

import "strings"

// transaction reads the statements that control transactions.
func (p *parser) transaction() bool {
	switch p.t[0].text {
	case "begin":
		_ = p.words("work") || p.words("transaction")
		return p.is(kBegin, "BEGIN") && p.txModes(false)
	case "start":
		return p.words("transaction") && p.is(kBegin, "START TRANSACTION") && p.txModes(false)
	case "commit", "end":
		_ = p.words("work") || p.words("transaction")
		return p.is(kCommit, "COMMIT") && p.andChain()
	case "abort":
		_ = p.words("work") || p.words("transaction")
		return p.is(kRollback, "ROLLBACK") && p.andChain()
	case "rollback":
		_ = p.words("work") || p.words("transaction")
		if p.words("to") {
			p.words("savepoint")
			return p.is(kRollbackTo, "ROLLBACK") && p.ident(&p.s.name)
		}
		return p.is(kRollback, "ROLLBACK") && p.andChain()
	case "savepoint":
		return p.is(kSavepoint, "SAVEPOINT") && p.ident(&p.s.name)
	case "release":
		p.words("savepoint")
		return p.is(kRelease, "RELEASE") && p.ident(&p.s.name)
	}
	p.i = 0
	return false
}

func (p *parser) andChain() bool {
	if p.words("and no chain") {
		return true
	}
	p.s.chain = p.words("and chain")
	return true
}

// txModes reads a list of transaction modes, with or without commas.
func (p *parser) txModes(needed bool) bool {
	m := &p.s.modes
	for {
		switch {
		case p.words("isolation level"):
			if !p.choice(&m.isolation, "serializable", "repeatable read", "read committed", "read uncommitted") {
				return false
			}
		case p.choice(&m.access, "read only", "read write"):
		case p.words("deferrable"), p.words("not deferrable"):
			m.deferrable = true
		default:
			return m.given || !needed
		}
		m.given, needed = true, p.op(",")
		if needed {
			m.given = false
		}
	}
}

// choice takes one of several phrases.
func (p *parser) choice(s *string, phrases ...string) bool {
	for _, words := range phrases {
		if p.words(words) {
			*s = words
			return true
		}
	}
	return false
}

// setting reads SET, RESET and SHOW.
func (p *parser) setting() bool {
	s := p.s
	switch p.t[0].text {
	case "show":
		return p.is(kShow, "SHOW") && p.settingName()
	case "reset":
		switch {
		case p.words("all"):
			return p.is(kReset, "RESET")
		case p.words("role"), p.words("session authorization"):
			return p.is(kNothing, "RESET")
		}
		return p.is(kReset, "RESET") && p.settingName()
	}
	p.is(kSet, "SET")
	switch {
	case p.words("transaction"):
		s.kind = kSetTx
		return p.txModes(true)
	case p.words("session characteristics as transaction"):
		s.kind = kNothing
		return p.txModes(true)
	case p.words("session authorization"), p.words("role"):
		s.kind = kNothing
		return p.literal(&s.value, nil)
	}
	s.local = p.words("local")
	if !s.local {
		p.words("session")
	}
	return p.assignment()
}

// settingName reads the name of a parameter, which may have a point.
func (p *parser) settingName() bool {
	s := p.s
	if p.words("time zone") {
		s.name, s.typed = "timezone", "timezone"
		return true
	}
	if !p.ident(&s.typed) {
		return false
	}
	for p.op(".") {
		var part string
		if !p.ident(&part) {
			return false
		}
		s.typed += "." + part
	}
	s.name = strings.ToLower(s.typed)
	return true
}

func (p *parser) assignment() bool {
	s := p.s
	switch {
	case p.words("time zone"):
		s.name, s.typed = "timezone", "timezone"
		if p.words("local") {
			s.def = true
			return true
		}
		return p.setValue()
	case p.words("names"):
		s.name, s.typed = "client_encoding", "client_encoding"
		if p.i == len(p.t) {
			s.def = true
			return true
		}
		k := p.peek()
		return (k.kind == tokString || k.text == "default") && p.setValue()
	}
	if !p.settingName() || !p.op("=") && !p.words("to") {
		return false
	}
	return p.setValue()
}

// setValue reads a value, or a list of values for the parameters that are lists.
func (p *parser) setValue() bool {
	s := p.s
	if p.words("default") {
		s.def = true
		return true
	}
	var parts []string
	for {
		var part string
		sign := ""
		if p.op("-") {
			sign = "-"
		}
		quote := p.peek().kind == tokString || p.peek().kind == tokIdent
		if !p.literal(&part, nil) {
			return false
		}
		if g := findGUC(s.name); g != nil && g.quoted && quote {
			part = quoteIdent(part)
		}
		parts = append(parts, sign+part)
		if !p.op(",") {
			break
		}
	}
	s.k = len(parts)
	s.value = strings.Join(parts, ", ")
	return true
}

// quoteIdent quotes an element of a list of identifiers where SQL needs it.
func quoteIdent(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		plain = plain && (c >= 'a' && c <= 'z' || c == '_' || i > 0 && isDigit(c))
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}
