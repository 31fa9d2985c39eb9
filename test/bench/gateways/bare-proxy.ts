import Koa from 'koa';
import { Agent } from 'undici';

// The minimum that a Koa process can do between a client and a model server: read the body, pass it on, pass the answer back, a
// stream as it arrives.
const [port, backendUrl] = process.argv.slice(2);
const { origin } = new URL(backendUrl ?? '');
const agent = new Agent({ connections: 256 });
const app = new Koa();

app.use(async function proxy(ctx) {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk);
  const { statusCode, headers, body } = await agent.request({
    origin,
    path: ctx.url as `/${string}`,
    method: ctx.method,
    headers: { 'content-type': 'application/json' },
    body: Buffer.concat(chunks),
  });
  ctx.status = statusCode;
  ctx.type = String(headers['content-type']);
  ctx.body = ctx.type === 'text/event-stream' ? body : await body.text();
});

app.listen(Number(port), '127.0.0.1');
