// Node.js: timers, promises, streams, worker threads and a child process.
const { createHash } = require('crypto');
const { Worker } = require('worker_threads');
const { spawn } = require('child_process');
const fs = require('fs');

const longer = Number(process.argv[2] || 1);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const work = `
const { parentPort, workerData } = require('worker_threads');
const { createHash } = require('crypto');
let text = String(workerData);
for (let i = 0; i < ${60000 * longer}; i++) text = createHash('sha256').update(text).digest('hex');
parentPort.postMessage(text);
`;
const worker = (n) => new Promise((done, fail) => {
  const thread = new Worker(work, { eval: true, workerData: n });
  thread.on('message', done);
  thread.on('error', fail);
});
const child = (n) => new Promise((done) => {
  const process = spawn('sh', ['-c', `read a; sleep 0.1; echo $a ${n}`]);
  let said = '';
  process.stdout.on('data', (piece) => { said += piece; });
  process.on('close', (code) => done(said.trim() + ' ' + code));
  process.stdin.end('hello\n');
});

(async () => {
  const out = fs.createWriteStream('node.log', { flags: 'a' });
  const hash = createHash('sha256');
  const workers = Promise.all([1, 2, 3].map(worker));
  const children = [];
  for (let i = 0; i < 200 * longer; i++) {
    out.write(`line ${i}\n`);
    hash.update(Buffer.alloc(50000, i));
    if (i % 25 === 0) children.push(child(i));
    await sleep(10);
  }
  await new Promise((done) => out.end(done));
  const log = fs.readFileSync('node.log', 'utf8');
  console.log('node', hash.digest('hex'), (await workers).join(' '));
  console.log((await Promise.all(children)).join(','), createHash('sha256').update(log).digest('hex'));
})();
