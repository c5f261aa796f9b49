// Package journal keeps what there is to tell of refusals and other misfortunes when there may be
// very many of them: how often each kind was, the last ones, and one line of each kind in the
// log.
package journal
