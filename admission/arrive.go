package admission

// Arrive says that w has come at now, as Admit does. Call it before Refuse of one that Admit
// has not seen, so that it has not waited since whenever it was last admitted.
func (w *Waiter) Arrive(now int64) { w.arrived = now }
