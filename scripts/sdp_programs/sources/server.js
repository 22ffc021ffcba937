// Answers each request with its body, reversed, from one of so many workers, or from the only
// process.
const cluster = require('cluster');
const http = require('http');

const workers = Number(process.argv[3]);

if (workers > 0 && cluster.isPrimary) {
  for (let made = 0; made < workers; made++) cluster.fork();
  process.on('SIGTERM', () => {
    let left = Object.keys(cluster.workers).length;
    cluster.on('exit', () => { if (--left === 0) process.exit(0); });
    for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
  });
} else {
  process.on('SIGTERM', () => process.exit(0));
  http.createServer((request, answer) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => answer.end(Buffer.concat(parts).reverse()));
  }).listen(Number(process.argv[2]), '127.0.0.1');
}
