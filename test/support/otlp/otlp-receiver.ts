import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { hexOf, messagesOf, numberOf, readFields, textOf } from './read-protobuf.ts';

/** A span as the receiver decoded it. Times are nanoseconds since 1970. */
export type ReceivedSpan = {
  service: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  traceState: string;
  name: string;
  kind: number;
  startedAt: bigint;
  endedAt: bigint;
  attributes: Record<string, unknown>;
  events: string[];
  links: { traceId: string; spanId: string }[];
  isError: boolean;
};

export interface OtlpReceiver extends AsyncDisposable {
  url: string;
  spans: readonly ReceivedSpan[];
  /** The bodies of all exports. */
  bodies: readonly Buffer[];
  headers: readonly IncomingHttpHeaders[];
  /** The spans of a trace, once there are this many with this name. */
  trace(traceId: string, name: string | RegExp, count?: number): Promise<ReceivedSpan[]>;
  /** The first span that fits, once it is there. */
  span(fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan>;
}

/** Receives spans by OTLP over HTTP, as a collector does. `answer`: the status of each export, or undefined for none. */
export async function startOtlpReceiver(answer: () => number | undefined = () => 200): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const bodies: Buffer[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const waiting = new Set<() => void>();
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const status = answer();
    bodies.push(body);
    headers.push(request.headers);
    if (status === undefined) return;
    if (status === 200) spans.push(...spansIn(body));
    response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
    for (const look of waiting) look();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  function onceThere<Found>(find: () => Found | undefined): Promise<Found> {
    return new Promise((resolve) => {
      function look() {
        const found = find();
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      }
      waiting.add(look);
      look();
    });
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a TCP server has such an address
    ...{ spans, bodies, headers },
    trace(traceId, name, count = 1) {
      const found = () => spans.filter((span) => span.traceId === traceId);
      return onceThere(() => (found().filter((span) => matches(span, name)).length >= count ? found() : undefined));
    },
    span: (fits) => onceThere(() => spans.find(fits)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function matches(span: ReceivedSpan, name: string | RegExp): boolean {
  return typeof name === 'string' ? span.name === name : name.test(span.name);
}

/** By `opentelemetry/proto/trace/v1/trace.proto`. */
function spansIn(body: Buffer): ReceivedSpan[] {
  return messagesOf(body, 1).flatMap((resourceSpans) => {
    const resource = messagesOf(resourceSpans, 1).flatMap((message) => messagesOf(message, 1));
    const service = String(attributesOf(resource)['service.name']);
    return messagesOf(resourceSpans, 2)
      .flatMap((scopeSpans) => messagesOf(scopeSpans, 2))
      .map((span) => ({
        ...{ service, traceId: hexOf(span, 1), spanId: hexOf(span, 2), traceState: textOf(span, 3) },
        ...{ parentSpanId: hexOf(span, 4), name: textOf(span, 5), kind: Number(numberOf(span, 6)) },
        ...{ startedAt: numberOf(span, 7), endedAt: numberOf(span, 8), attributes: attributesOf(messagesOf(span, 9)) },
        events: messagesOf(span, 11).map((event) => textOf(event, 2)),
        links: messagesOf(span, 13).map((link) => ({ traceId: hexOf(link, 1), spanId: hexOf(link, 2) })),
        isError: messagesOf(span, 15).some((status) => numberOf(status, 3) === 2n),
      }));
  });
}

/** By `opentelemetry/proto/common/v1/common.proto`: text, boolean, whole number or number. */
function attributesOf(pairs: readonly Buffer[]): Record<string, unknown> {
  return Object.fromEntries(pairs.map((pair) => [textOf(pair, 1), messagesOf(pair, 2).map(anyValue)[0]]));
}

function anyValue(message: Buffer): unknown {
  const [field] = readFields(message);
  if (field === undefined) return undefined;
  const { number, value } = field;
  if (Buffer.isBuffer(value)) return value.toString();
  if (number === 2) return value === 1n;
  if (number === 3) return Number(value);
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.readDoubleLE();
}
