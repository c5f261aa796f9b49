// Runs jobs with node-postgres and its pool: see ../doc.go for the language.
//
// usage: agent.js pg|pg-query
// With pg-query statements go through pool.query, which throws a connection away after any error.
'use strict'
const { Pool } = require('pg')
const readline = require('readline')

const kind = process.argv[2]
const longestPause = 100 // ms; the hint may say more, a test has less time
const recovery = 30000 // ms within which a statement has to be served when it is calm

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n')
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const broken = (e) => say('broken', { text: String((e && e.stack) || e) })
// Errors of the network have codes too, such as ECONNRESET.
const fromServer = (e) => e && typeof e.code === 'string' && /^[0-9A-Z]{5}$/.test(e.code)

// refused tells of a refusal, and returns how many ms to wait before the next attempt.
function refused(mode, e, after) {
  const hint = e.hint || ''
  const wait = /retry_after_ms=(\d+)/.exec(hint)
  const retry = /retry=(\w+)/.exec(hint)
  say('refused', {
    mode, code: e.code, detail: e.detail || '', hint, after,
    wait: wait ? Number(wait[1]) : -1, retry: retry ? retry[1] : '',
  })
  return Math.min(wait ? Number(wait[1]) : 20, longestPause)
}

async function attempt(client, job, mode, tally) {
  let after = ''
  try {
    if (mode === 'tx') {
      await client.query('begin')
      await client.query(job.sql)
      await client.query('commit')
    } else if (mode === 'several') {
      await client.query(`${job.sql}; ${job.sql}; ${job.sql}`)
    } else {
      await client.query({ text: job.sql, values: [] }) // the extended protocol
    }
    tally.served++
    return 0
  } catch (e) {
    if (!fromServer(e)) throw e
    if (mode === 'tx') {
      after = await client.query(job.after).then(() => 'served', (again) => again.code || String(again))
      await client.query('rollback')
    }
    return refused(mode, e, after)
  }
}

// lend gives a client of the pool to do, and puts it back.
async function lend(pool, tally, act) {
  if (kind === 'pg-query') return act(pool)
  const client = await pool.connect()
  tally.pids.add(client.processID)
  try {
    return await act(client)
  } finally {
    client.release()
  }
}

async function work(pool, job, mode, tally, calm) {
  const until = Date.now() + Number(job.ms)
  try {
    while (Date.now() < until) {
      await sleep(await lend(pool, tally, (client) => attempt(client, job, mode, tally)))
    }
  } catch (e) {
    broken(e)
  }
  await calm()
  for (;;) {
    try {
      await lend(pool, tally, (client) => client.query(job.after))
      tally.served++
      return
    } catch (e) {
      if (!fromServer(e)) return broken(e)
    }
    if (Date.now() > until + recovery) return broken('not served when it was calm again')
    await sleep(50)
  }
}

// carryOn makes transfers without any care: after an error it goes on with the next statement.
async function carryOn(pool, job, worker) {
  const tags = (job.tags || '').split('|')
  const client = await pool.connect()
  for (let i = 0; i < Number(job.transfers); i++) {
    const name = `${job.application}-${worker}-${i}`
    const update = (sign, id) =>
      `update book set balance = balance ${sign} 1, last = '${name}' from pg_sleep(0.005) where id = ${id} ${tags[worker % tags.length]}`
    const statements = ['begin', update('-', 1 + ((worker * 7 + i * 3) % 20)), update('+', 21 + ((worker + i * 5) % 20)), 'commit']
    for (const sql of statements) {
      try {
        const result = await client.query(sql)
        if (sql === 'commit' && result.command === 'COMMIT') say('committed', { text: name })
      } catch (e) {
        if (!fromServer(e)) throw e
        say('failed', { code: e.code, detail: e.detail || '' })
      }
    }
  }
  client.release()
}

async function run(job) {
  const workers = Number(job.workers)
  const pool = new Pool({
    host: job.host, port: Number(job.port), user: job.user, database: job.database, ssl: false, max: workers,
    application_name: job.application, idleTimeoutMillis: 0,
  })
  pool.on('error', broken) // of an idle connection
  pool.on('connect', (client) => client.on('error', () => {})) // without it a lost connection ends the process
  const clients = await Promise.all([...Array(workers)].map(() => pool.connect()))
  clients.forEach((client) => client.release())
  say('ready')
  await lines.next()
  const tally = { served: 0, pids: new Set() }
  let left = workers
  let release
  const allCalm = new Promise((resolve) => { release = resolve })
  const calm = () => {
    if (--left === 0) {
      say('calm')
      release()
    }
    return allCalm
  }
  await Promise.all([...Array(workers).keys()].map((i) =>
    job.mode === 'transfer' ? carryOn(pool, job, i).catch(broken) : work(pool, job, job.mode === 'mixed' ? ['plain', 'tx', 'several'][i % 3] : job.mode, tally, calm)))
  await pool.end()
  say('done', { served: tally.served, pids: [...tally.pids] })
}

async function main() {
  for (let next; !(next = await lines.next()).done;) {
    const line = next.value
    await run(Object.fromEntries(line.split('\t').map((part) => {
      const at = part.indexOf('=')
      return [part.slice(0, at), part.slice(at + 1)]
    })))
  }
}

main().catch(broken)
