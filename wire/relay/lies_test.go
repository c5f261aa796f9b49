package relay

import (
	"fmt"
	"testing"

	"github.com/pgweir/pgweir/wire"
)

// A server that says of itself what can't be is given up before anything is made of it.
func TestServersThatLie(t *testing.T) {
	done := wire.AppendCommandComplete(nil, "SELECT 1")
	parameters := func(n int, name func(int) string) (b []byte) {
		for i := range n {
			b = wire.AppendParameterStatus(b, name(i), fmt.Sprint(i))
		}
		return b
	}
	another := func(i int) string { return fmt.Sprint("name", i) }
	same := func(int) string { return "DateStyle" }
	for name, c := range map[string]struct {
		ask    string
		says   []byte
		broken bool
	}{
		"a state that is none":                     {"select 1", append(done, wire.AppendReadyForQuery(nil, 'X')...), true},
		"no end of parameters":                     {"select 1", parameters(maxStatus+1, another), true},
		"no end of parameters, of one name":        {"select 1", parameters(10*maxStatus, same), false},
		"many parameters":                          {"select 1", parameters(maxStatus-3, another), false},
		"no end of parameters for a reset":         {"reset all", parameters(maxStatus+1, another), true},
		"no end of one name's values, for a reset": {"reset all", parameters(10*maxStatus, same), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, Param{Name: "DateStyle", Value: "German"})
			r.send(q("select 1"))
			s := r.servers[0].s
			var p Plan
			r.client.Bind(s, &p)
			r.client.Input(q(c.ask), &p)
			ev := None
			for b := c.says; len(b) > 0 && ev == None; {
				p.Reset()
				var n int
				n, ev = s.Input(b, &p)
				b = b[n:]
			}
			if (ev == Broken) != c.broken {
				t.Errorf("event %v", ev)
			}
			if n := len(s.Status()); n > maxStatus {
				t.Errorf("%d parameters are remembered", n)
			}
		})
	}
}
