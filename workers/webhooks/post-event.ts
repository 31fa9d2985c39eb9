import { isIP } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import {
  type AddressRules,
  findPublicAddresses,
  parseWebhookUrl,
  WebhookAddressError,
} from '../../shared/webhooks/webhook-address.ts';

const answerMsMax = 10_000;
const bodyBytesMax = 4_096;
const headBytesMax = 16_384;

/** What a receiver answered. `error`, for the account, is set if there was no answer. */
export type Answer = { status?: number; error?: string; retryAfterMs?: number };

export type PostEvent = (url: string, request: { headers: Record<string, string>; body: string }) => Promise<Answer>;

/**
 * Posts to a receiver over a connection of its own, to addresses that were checked just before (contract.md#j4-webhook-addresses). Takes at
 * most ten seconds, follows no redirect, and never fails.
 */
export function createPostEvent({
  rules,
  timeoutMs = answerMsMax,
}: {
  rules: AddressRules;
  timeoutMs?: number;
}): PostEvent {
  return async function postEvent(url, request) {
    const late = new AbortController();
    const overdue = Promise.withResolvers<Answer>();
    let answer: Answer = { error: `no answer within ${timeoutMs / 1_000} s` };
    const timer = setTimeout(() => {
      overdue.resolve(answer);
      late.abort();
    }, timeoutMs);
    const answered = (known: Answer) => {
      answer = known;
    };
    try {
      return await Promise.race([post(url, request, { rules, signal: late.signal, answered }), overdue.promise]);
    } finally {
      clearTimeout(timer);
    }
  };
}

/** `answered` is called once the status is known: a body that does not end does not change it. */
type PostOptions = { rules: AddressRules; signal: AbortSignal; answered: (answer: Answer) => void };

async function post(
  address: string,
  { headers, body }: Parameters<PostEvent>[1],
  { rules, signal, answered }: PostOptions,
): Promise<Answer> {
  let client: Client | undefined;
  try {
    const url = parseWebhookUrl(address, rules);
    const addresses = await findPublicAddresses(url, rules);
    signal.throwIfAborted();
    client = new Client(url.origin, {
      connect: { lookup: lookUpOnly(addresses) },
      allowH2: false, // with it, the limit of headers would be another
      maxHeaderSize: headBytesMax,
      headersTimeout: 0, // the signal is enough
      bodyTimeout: 0,
    });
    const path = url.pathname + url.search;
    const response = await client.request({ method: 'POST', path, headers, body, signal });
    const answer = answerOf(response);
    answered(answer);
    await readSome(response.body);
    return answer;
  } catch (error) {
    return { error: explain(error) };
  } finally {
    void client?.destroy();
  }
}

type LookUp = NonNullable<Extract<Client.Options['connect'], { lookup?: unknown }>['lookup']>;

/** Connections use these addresses, whatever the name servers say by now. */
export function lookUpOnly(addresses: readonly string[]): LookUp {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, { all }, callback) => {
    const [first] = found;
    if (first === undefined) callback(new Error('there is no address'), '');
    else if (all) callback(null, found);
    else callback(null, first.address, first.family);
  };
}

/** A receiver that is still sending its body need not see a cut connection. What follows is not read. */
async function readSome(body: Dispatcher.ResponseData['body']): Promise<void> {
  body.on('error', () => {}); // the body is left half-read
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += Buffer.from(chunk).length;
      if (bytes >= bodyBytesMax) return;
    }
  } catch {
    // The status has arrived.
  }
}

function answerOf({ statusCode, headers }: Dispatcher.ResponseData): Answer {
  const seconds = /^\d{1,9}$/.exec(String(headers['retry-after']))?.[0];
  return { status: statusCode, ...(seconds !== undefined && { retryAfterMs: Number(seconds) * 1_000 }) };
}

const explanations: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'the connection was refused'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'the connection was closed without an answer'],
  [/CERT|^ERR_TLS|^UNABLE_TO|^ERR_SSL|^EPROTO$/, 'the TLS connection could not be established'],
  [/^(HPE_|HTTPParserError|UND_ERR_HEADERS_OVERFLOW)/, 'the answer is not valid HTTP'],
];

function explain(error: unknown): string {
  if (error instanceof WebhookAddressError) return error.message;
  if (!(error instanceof Error)) return 'the connection failed';
  const { name, code } = { code: undefined, ...error, name: error.name };
  const known = explanations.find(([pattern]) => pattern.test(String(code ?? name)));
  return known?.[1] ?? 'the connection failed';
}
