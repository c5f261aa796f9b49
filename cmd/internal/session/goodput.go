package session

import "github.com/pgweir/pgweir/admission"

// Class returns how much the client's latest request matters.
func (cl *Client) Class() admission.Class { return cl.wait.Class }

// classIndex is a class's place in tables of [admission.Classes]; what is no class counts as
// the lowest.
func classIndex(c admission.Class) int {
	if c < admission.CriticalPlus || c > admission.Sheddable {
		return admission.Classes - 1
	}
	return int(c - admission.CriticalPlus)
}

// useful reports whether the answer that the client has just got in full is of use to it: it
// is there, as far as one can know, and its deadline has not passed. The deadline of a
// transaction that it has begun was for the wait only, and whoever waited for longer got no
// server.
func (cl *Client) useful(now int64) bool {
	return !cl.ended && !cl.eof && !cl.hungUp && (cl.wait.Begun || cl.wait.Deadline == 0 || now <= cl.wait.Deadline)
}
