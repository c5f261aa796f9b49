package session

import "github.com/pgweir/pgweir/admission"

// mostReplaced is how many servers in a row may end before a client has sent anything to
// them, until it is told. Some do when Postgres is restarted; where all do, Postgres lets
// nobody work, and the client would come back for ever.
const mostReplaced = 10

// again notes that a server has ended before the client sent anything to it. Its request is
// read again, and asks for another one, or is refused.
func (cl *Client) again(now int64) {
	if cl.replaced++; cl.replaced >= mostReplaced {
		cl.replaced = 0
		cl.refused(cl.core.gate.Refuse(now, &cl.wait, admission.NoServer), now)
		return
	}
	cl.wait.Again(now)
}
