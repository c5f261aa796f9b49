package wiretest

import "fmt"

// own sets and reads parameters that a pooler answers for: to a server they are like any
// others whose names have a point. Each is set before it is read, because a server knows
// them only from then on. The texts are short: of a long one a pooler may see the beginning
// only.
func (s *scripter) own() {
	if s.has(Transactions) {
		s.query("rollback")
	}
	for _, name := range ownNames() {
		s.query(fmt.Sprintf("set %s = a", name))
	}
	block := s.has(Transactions) && s.chance(2)
	switch {
	case block && s.has(Extended) && s.chance(3):
		s.batch("begin") // the first statement comes in the same batch
	case block:
		s.query("begin")
		s.pause()
	}
	for range 1 + s.r.IntN(5) {
		s.ownStep(block)
	}
	if s.has(Extended) {
		s.sync()
	}
	if block {
		s.query(s.endText())
	}
	for _, name := range ownNames() {
		s.query("show " + name)
	}
}

func ownNames() []string { return []string{"pgweir.tenant", "pgweir.class"} }

// ownStep is one statement, by itself or in a batch that may go on.
func (s *scripter) ownStep(block bool) {
	text := s.ownText(block)
	switch n := s.r.IntN(6); {
	case n == 0 && s.has(Extended):
		s.batch(s.any())
		s.batch(text)
	case n == 1 && s.has(Extended):
		s.batch(text)
		s.batch(s.any())
		s.sync()
	case n == 2 && s.has(Extended):
		s.parse("", text)
		s.describe('S', "")
		s.flush()
		s.bind(Bind{ResultFormats: pick(s, nil, []int16{0}, []int16{1})})
		s.describe('P', "")
		s.execute("", 1)
		s.sync()
	case n == 3 && s.has(Extended):
		s.batch(text)
		s.sync()
		s.pause()
	default:
		if s.has(Extended) {
			s.sync() // a Query in the middle of a batch is the server's
		}
		s.query(text)
		s.pause()
	}
}

func (s *scripter) ownText(block bool) string {
	name, value := ownNames()[s.r.IntN(2)], pick(s, "b", "'c'", "'it''s'", "default", `"D"`, "7")
	switch n := s.r.IntN(8); {
	case n < 2:
		return fmt.Sprintf("set %s to %s", name, value)
	case n == 2:
		return fmt.Sprintf("SET SESSION %s = %s", name, value)
	case n == 3 && block:
		return fmt.Sprintf("set local %s = %s", name, value)
	case n == 4:
		return "reset " + name
	case n == 5:
		return s.any()
	}
	return pick(s, "show ", "SHOW ") + name
}
