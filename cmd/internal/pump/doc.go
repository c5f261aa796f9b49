// Package pump copies between a client and a server of its own that replicates: nothing of what
// they say is of transactions. It keeps to whole messages only where somebody else has to put in
// a last word.
package pump
