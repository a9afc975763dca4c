// Node both ways: `peer.js serve PORT ECHO_PORT` and `peer.js load PORT ECHO_PORT`, which prints JSON of what it found.
'use strict';
const http = require('http');
const net = require('net');
const { createHash } = require('crypto');
const { pipeline } = require('stream');

const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');

// Bytes that both sides can make: a stream of SHA-256 counters.
function body(size) {
  const out = Buffer.alloc(size);
  for (let at = 0, n = 0; at < size; at += 32, n += 1) createHash('sha256').update(`${size}-${n}`).digest().copy(out, at);
  return out;
}

function serve(port, echoPort) {
  // POST echoes as it comes in (full duplex), GET /SIZE answers in one write, GET /stream/SIZE in pieces with back-pressure.
  const server = http.createServer((request, response) => {
    if (request.method === 'POST') return pipeline(request, response, () => {});
    const [, how, text] = request.url.match(/^\/(stream\/)?(\d+)$/);
    const whole = body(Number(text));
    if (!how) return response.end(whole);
    let at = 0;
    const more = () => {
      while (at < whole.length) {
        const piece = whole.subarray(at, (at += 3000));
        if (!response.write(piece)) return response.once('drain', more);
      }
      return response.end();
    };
    return more();
  });
  server.keepAliveTimeout = 60000;
  // Raw TCP comes back, also after the peer has closed its half.
  net.createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(echoPort, '127.0.0.1', () => {
    server.listen(port, '127.0.0.1');
  });
}

function ask(agent, port, method, path, bytes) {
  return new Promise((resolve) => {
    const request = http.request({ agent, port, host: '127.0.0.1', method, path }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts)));
      response.on('error', (error) => resolve(Buffer.from(String(error))));
    });
    request.on('error', (error) => resolve(Buffer.from(String(error))));
    request.end(bytes);
  });
}

function echo(port, bytes) {
  return new Promise((resolve) => {
    const parts = [];
    const socket = net.connect(port, '127.0.0.1', () => socket.end(bytes)); // writes and half-closes
    socket.on('data', (part) => parts.push(part));
    socket.on('close', () => resolve(Buffer.concat(parts)));
    socket.on('error', () => {});
  });
}

async function load(port, echoPort) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const found = {};
  let moved = 0;
  const began = process.hrtime.bigint();
  for (const size of [1, 999, 1001, 64000, 1000000, 10000000]) {
    const wanted = body(size);
    const times = size > 100000 ? 3 : 40;
    const each = async (name, one) => {
      const got = await Promise.all(Array.from({ length: times }, one));
      const wrong = got.filter((bytes) => digest(bytes) !== digest(wanted)).length;
      found[`${size} bytes ${name}`] = wrong ? `failed: ${wrong} of ${times} wrong` : 'passed';
      moved += size * times;
    };
    await each('in one write', () => ask(agent, port, 'GET', `/${size}`));
    await each('with back-pressure', () => ask(agent, port, 'GET', `/stream/${size}`));
    await each('echoed by HTTP', () => ask(agent, port, 'POST', '/', wanted));
    await each('echoed by TCP, half closed', () => echo(echoPort, wanted));
  }
  agent.destroy();
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  console.log(JSON.stringify({ results: found, rate: moved / seconds }));
}

const [port, echoPort] = process.argv.slice(3).map(Number);
if (process.argv[2] === 'serve') serve(port, echoPort);
else load(port, echoPort);
