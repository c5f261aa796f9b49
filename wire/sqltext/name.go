package sqltext

import "bytes"

// alias is a parameter that SQL spells with words of its own.
type alias uint8

const (
	aliasNone alias = iota
	aliasTimeZone
	aliasNames
	aliasSchema
	aliasRole
	aliasIsolation
	aliasAuthorization
	aliasCharacteristics
	aliasAll
)

var aliasText = [...]string{
	aliasNone: "", aliasTimeZone: "timezone", aliasNames: "client_encoding", aliasSchema: "search_path",
	aliasRole: "role", aliasIsolation: "transaction_isolation", aliasAuthorization: "session_authorization",
	aliasCharacteristics: "session characteristics", aliasAll: "all",
}

// Name returns what the statement names: the lower-cased parameter of Set,
// SetLocal, Reset and Show ("timezone" for TIME ZONE, "client_encoding" for
// NAMES, "session characteristics" for those, which are several), the prepared statement of Deallocate, the savepoint of RollbackTo,
// Savepoint and Release, unquoted and with unquoted letters folded. Other kinds have the
// name "". The text must be the one that was classified.
func (s Statement) Name(text []byte) string {
	if s.alias != aliasNone {
		return aliasText[s.alias]
	}
	if s.nameEnd <= s.nameStart || int(s.nameEnd) > len(text) {
		return ""
	}
	raw := text[s.nameStart:s.nameEnd]
	name := make([]byte, 0, len(raw))
	sc := scanner{src: raw}
	for t := sc.next(); t != tokEOF; t = sc.next() {
		part := sc.text()
		switch t {
		case tokQuoted:
			from := len(name)
			name = append(name, bytes.ReplaceAll(part[1:len(part)-1], []byte(`""`), []byte(`"`))...)
			switch s.Kind {
			case Deallocate, RollbackTo, Savepoint, Release:
			default:
				lower(name[from:])
			}
		default:
			from := len(name)
			name = append(name, part...)
			lower(name[from:])
		}
	}
	return string(name)
}

// Value returns the value of Set and SetLocal when it is a single word, number
// or string, unquoted; words keep their letter case. ok is false for DEFAULT,
// lists, strings with escapes and all other kinds: such a statement only a
// server can evaluate.
func (s Statement) Value(text []byte) (value string, ok bool) {
	if s.valueEnd <= s.valueStart || int(s.valueEnd) > len(text) {
		return "", false
	}
	raw := text[s.valueStart:s.valueEnd]
	switch quote := raw[0]; quote {
	case '\'', '"':
		two, one := []byte{quote, quote}, []byte{quote}
		return string(bytes.ReplaceAll(raw[1:len(raw)-1], two, one)), true
	}
	return string(raw), true
}

// ToDefault reports whether the statement is a Set that goes back to the default as Reset does:
// SET name TO DEFAULT, SET TIME ZONE DEFAULT or LOCAL, SET NAMES DEFAULT. The text must be the
// one that was classified.
func (s Statement) ToDefault(text []byte) bool {
	if s.Kind != Set || int(s.nameEnd) > len(text) {
		return false
	}
	switch s.alias {
	case aliasNone, aliasTimeZone, aliasNames:
	default:
		return false
	}
	sc := scanner{src: text, pos: int(s.nameEnd)}
	var last []byte // DEFAULT is reserved: as a value it stands alone
	for t := sc.next(); t != tokEOF && t != tokSemicolon; t = sc.next() {
		if last = nil; t == tokWord {
			last = sc.text()
		}
	}
	return bytes.EqualFold(last, []byte("default")) || s.alias == aliasTimeZone && bytes.EqualFold(last, []byte("local"))
}

// lower folds ASCII letters as Postgres folds unquoted identifiers of a
// multi-byte database.
func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}

// Values returns what Set and SetLocal assign as it is written, a list with its commas;
// empty for all other kinds and for those with words of their own, such as SET TIME ZONE.
// The text must be the one that was classified.
func (s Statement) Values(text []byte) []byte {
	if s.Kind != Set && s.Kind != SetLocal || s.alias != aliasNone || int(s.nameEnd) > len(text) {
		return nil
	}
	sc := scanner{src: text, pos: int(s.nameEnd)}
	sc.next() // "=" or TO
	start, end := -1, 0
	for t := sc.next(); t != tokEOF && t != tokSemicolon; t = sc.next() {
		if start < 0 {
			start = sc.start
		}
		end = sc.pos
	}
	if start < 0 {
		return nil
	}
	return text[start:end]
}
