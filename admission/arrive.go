package admission

// Arrive says that w has come at now, as Admit does. Call it before Refuse of one that Admit
// has not seen, so that it has not waited since whenever it was last admitted.
func (w *Waiter) Arrive(now int64) { w.arrived, w.goesOn = now, false }

// Again says that what w was granted is of no use to it: its server ended before it could serve.
// The next Admit is for the same work, so that what w has waited until now counts towards the
// longest that it may wait in any case.
func (w *Waiter) Again(now int64) {
	if w.begins <= 0 { // it was granted at once
		w.begins += w.arrived
	}
	w.begins -= now
	w.goesOn = true
}
