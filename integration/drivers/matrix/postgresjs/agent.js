// postgres.js, whose pool lends connections by reserve().
'use strict'
const postgres = require('postgres')
const { pipeline } = require('stream/promises')
const { Readable } = require('stream')
const frame = require('../node/frame.js')

process.on('unhandledRejection', () => {}) // of what a pool that has ended still had in its queue

const conns = {}
const prepared = {}
const alone = {}
const running = {}
let pool = null
let heard = [] // notices

const dsn = (o) => ({
  host: o.host, port: Number(o.port), user: o.user, password: o.password, database: o.database,
  onnotice: (m) => heard.push(['notice', `${m.severity}:  ${m.message}`]),
  ...(o.tz ? { connection: { TimeZone: o.tz } } : {}),
})
const lines = (r) => r.length && Array.isArray(r[0]) && r.command === undefined ? r.flatMap(lines) : one(r)
const one = (r) => [...r.map((row) => ['row', ...row]), ['end', r.command + (r.count === null || r.count === undefined ? '' : ' ' + r.count)]]
const query = async (n, sql, args = []) => one(await conns[n].unsafe(sql, args, { prepare: true }).values())
const say = async (n, sql) => {
  const r = await conns[n].unsafe(sql).simple().values()
  // Several results come as a list of them.
  return r.length && r[0] && r[0].command !== undefined ? Array.from(r).flatMap(one) : one(r)
}

// A connection that was lost must not be used again: the driver would write to no socket, which
// nobody catches but this. What was asked then is never answered.
const asked = new Set()
process.on('uncaughtException', (e) => { for (const reject of asked) reject(e) })

const careful = (verb) => async (n, ...args) => {
  if (!conns[n]) throw new Error('no connection')
  let lost
  try {
    return await Promise.race([verb(n, ...args), new Promise((_, reject) => asked.add(lost = reject))])
  } catch (e) {
    if (frame.failed(e)[1] === '' || e.severity === 'FATAL') delete conns[n]
    throw e
  } finally {
    asked.delete(lost)
  }
}

const verbs = {
  async pool(n, ...args) {
    if (pool) pool.end({ timeout: 5 }).catch(() => {})
    const o = frame.options(args)
    pool = postgres({ ...dsn(o), max: Number(o.size), backoff: 0.05 })
  },
  async connect(n, ...args) {
    const o = frame.options(args)
    if (o.enc) return [['no']] // it speaks UTF8 only
    alone[n] = postgres({ ...dsn(o), max: 1 })
    conns[n] = await alone[n].reserve()
  },
  async open(n) { conns[n] = await pool.reserve() },
  async close(n) {
    const c = conns[n]
    if (!c) return
    delete conns[n]
    c.release()
    if (alone[n]) {
      await alone[n].end({ timeout: 0 })
      delete alone[n]
    }
  },
  query: (n, sql, ...args) => query(n, sql, args),
  exec: say,
  async prepare(n, name, sql) { prepared[name] = sql },
  run: (n, name, ...args) => query(n, prepared[name], args), // it prepares by the text
  begin: (n, level) => say(n, level ? 'begin isolation level ' + level : 'begin'),
  commit: (n) => say(n, 'commit'),
  rollback: (n) => say(n, 'rollback'),
  async copyin(n, sql, text) {
    await pipeline(Readable.from([text]), await conns[n].unsafe(sql).writable())
  },
  async copyout(n, sql) {
    let text = ''
    for await (const chunk of await conns[n].unsafe(sql).readable()) text += chunk
    return text.split('\n').slice(0, -1).map((line) => ['row', line])
  },
  async pipeline(n, ...statements) {
    // Queries of one connection are sent without a wait for the answers.
    const all = await Promise.allSettled(statements.map((sql) => conns[n].unsafe(sql, [], { prepare: true }).values()))
    return all.flatMap((r) => r.status === 'fulfilled' ? one(r.value) : [frame.failed(r.reason)])
  },
  async long(n, sql) {
    running[n] = conns[n].unsafe(sql).execute()
    return [['row', (await running[n])[0].pg_sleep]]
  },
  async cancel(n, target) { running[target].cancel() },
  async notices(n, sql) {
    heard = []
    const done = await say(n, sql)
    return [...done, ...heard]
  },
  async types(n) {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const values = [null, true, -(2 ** 31), '9223372036854775807', 1.5, '12345678901234567890.123456789', "é\t'\\", '', all,
      new Date(Date.UTC(2024, 1, 29, 12, 34, 56, 789)), '0001-01-01', { a: [1, null] }, '00000000-0000-0000-0000-000000000005']
    const r = await conns[n].unsafe('select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, ' +
      '$10::timestamptz, $11::date, $12::jsonb, $13::uuid, array[1,null,3]', values).values()
    return [['row', ...r[0].map((v) => v === null ? null : Buffer.isBuffer(v) ? v.toString('hex') : JSON.stringify(v))]]
  },
  ping: (n) => query(n, 'select 1'),
}
for (const verb of ['query', 'exec', 'run', 'begin', 'commit', 'rollback', 'long', 'ping']) verbs[verb] = careful(verbs[verb])
frame.main(verbs)
