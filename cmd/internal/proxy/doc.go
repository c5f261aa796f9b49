// Package proxy is pgweir as a server: it listens, lets clients log in on
// goroutines of their own, hands the logged-in sessions to the event loop, logs
// in to Postgres on the loop's behalf, forwards cancel requests and drains.
//
// What belongs to the loop thread says so. Everything else here runs on
// goroutines and reaches sessions only by posting to the loop.
package proxy
