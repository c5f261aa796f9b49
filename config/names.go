package config

import (
	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// What a configuration is made of. The packages below know how it is written; who uses a
// [Config] needs only these names.
type (
	// Problem is one reason why a configuration is refused.
	Problem = document.Problem
	// Listen is one place where clients connect.
	Listen = endpoint.Listen
	// URL says how to reach one Postgres cluster and as whom to log in there.
	URL = endpoint.URL
	// Encryption is how connections to Postgres are encrypted.
	Encryption = endpoint.Encryption
	// Auth is who may come in.
	Auth = schema.Auth
	// Console is who may use the console.
	Console = schema.Console
	// Upstream is one Postgres cluster and the budget of connections to it.
	Upstream = schema.Upstream
	// Database is a name that clients may ask for.
	Database = schema.Database
	// Workload is how a group of clients is treated.
	Workload = schema.Workload
	// Match says which clients belong to a workload.
	Match = schema.Match
	// Role is what a Postgres role may ask for.
	Role = schema.Role
	// Rate is how much one caller may ask for.
	Rate = schema.Rate
	// RatePer is what has a rate of its own.
	RatePer = schema.RatePer
	// LogFormat is the shape of a log line.
	LogFormat = schema.LogFormat
	// Duration is a length of time, or none.
	Duration = values.Duration
)

// The words of a configuration that the program asks about, as package schema explains
// them.
const (
	Trust = schema.Trust
	Scram = schema.Scram
	Cert  = schema.Cert
	Peer  = schema.Peer
	HBA   = schema.HBA

	Session   = schema.Session
	Statement = schema.Statement

	Cancel = schema.Cancel
	Finish = schema.Finish

	ToolsWorkload = schema.ToolsWorkload

	PgBouncerCompat = schema.PgBouncerCompat

	PerClient = schema.PerClient
	PerRole   = schema.PerRole

	NoEscalation = schema.NoEscalation
	Delay        = schema.Delay
	Block        = schema.Block

	JSON = schema.JSON

	AnySession = endpoint.AnySession
)
