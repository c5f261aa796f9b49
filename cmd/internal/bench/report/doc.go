// Package report shows the results of a bench: in a terminal while a load runs and at its
// end, as JSON for programs, and as one HTML page with plots that needs nothing else.
//
// All of them show several results side by side: several targets, or one with several
// settings.
package report
