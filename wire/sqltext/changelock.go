package sqltext

import "strings"

// The functions of session-level advisory locks.
const (
	lockFunction      = "pg_advisory_lock"
	tryLockFunction   = "pg_try_advisory_lock"
	unlockFunction    = "pg_advisory_unlock"
	unlockAllFunction = "pg_advisory_unlock_all"
)

// lockEffect tells what a function does to advisory locks.
func lockEffect(name string) (e Effect, ok bool) {
	if name == unlockAllFunction {
		return UnlocksAll, true
	}
	switch strings.TrimSuffix(name, "_shared") {
	case lockFunction:
		return TakesLock, true
	case tryLockFunction:
		return TriesLock, true
	case unlockFunction:
		return Unlocks, true
	}
	return 0, false
}

// locks looks for functions of advisory locks in a statement. How many locks it takes is known
// only of one that calls one such function and nothing beside: of others that may take any it
// is not, and those that may give some back are taken for nothing.
func (r *changeReader) locks(text []byte) {
	calls, takes := 0, false
	sc := scanner{src: text}
	for t := sc.next(); t != tokEOF; t = sc.next() {
		var name string
		switch t {
		case tokWord:
			if sc.fold&0xffffff != pgHead {
				continue
			}
			word := append([]byte(nil), sc.text()...)
			lower(word)
			name = string(word)
		case tokQuoted:
			name = unquote(sc.text())
		default:
			continue
		}
		if e, ok := lockEffect(name); ok {
			calls++
			takes = takes || e.Leaves()
		}
	}
	if calls == 0 {
		return
	}
	if e, ok := r.call(text); ok && calls == 1 {
		r.add(e, "")
	} else if takes {
		r.add(MayLock, "")
	}
}

// call reads a statement that is SELECT f(...), with a label or without.
func (r *changeReader) call(text []byte) (e Effect, ok bool) {
	r.sc = scanner{src: text}
	r.step()
	if !r.accept("select") {
		return 0, false
	}
	r.accept("pg_catalog")
	if r.tok == tokDot {
		r.step()
	}
	if e, ok = lockEffect(r.name()); !ok || r.tok != tokOpen {
		return 0, false
	}
	for depth := 0; r.tok != tokEOF; {
		switch r.tok {
		case tokOpen:
			depth++
		case tokClose:
			depth--
		}
		r.step()
		if depth == 0 {
			break
		}
	}
	if r.accept("as") || r.tok == tokQuoted || r.tok == tokWord && !r.is("from") {
		r.name()
	}
	return e, r.tok == tokEOF
}

// unquote returns what a quoted identifier means.
func unquote(raw []byte) string {
	return strings.ReplaceAll(string(raw[1:len(raw)-1]), `""`, `"`)
}
