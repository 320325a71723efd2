const http = require('http');
const zlib = require('zlib');
const rows = Array.from({length: 400}, (_, i) => ({id: i, name: 'n' + (i * 7919) % 1000}));
http.createServer((request, response) => {
  const number = Number(request.url.split('/').pop());
  const chosen = rows.map(row => ({...row, rank: (row.id * number) % 97}));
  chosen.sort((a, b) => a.rank - b.rank);
  const body = zlib.gzipSync(JSON.stringify(chosen));
  response.writeHead(200, {'Content-Length': body.length, 'Content-Encoding': 'gzip'});
  response.end(body);
}).listen(Number(process.argv[2]), '127.0.0.1');
