// Sends bodies on eight kept connections, and compares what comes back.
const http = require('http');
const crypto = require('crypto');

const port = Number(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
const lengths = [1, 100, 5000, 70000, 1 << 20];

function ask(turn) {
  const body = crypto.randomBytes(lengths[turn % lengths.length]);
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, agent, method: 'POST' }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        if (Buffer.concat(parts).reverse().equals(body)) resolve();
        else reject(new Error(`answer ${turn} is wrong`));
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

Promise.all(Array.from({ length: 400 }, (_, turn) => ask(turn))).then(() => {
  console.log('400 answers are right');
  agent.destroy();
}, (fault) => {
  console.log(String(fault));
  process.exit(1);
});
