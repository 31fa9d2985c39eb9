import type { Redis } from 'ioredis';
import type { ApiError } from '../../shared/errors.ts';
import { packError } from '../../shared/errors.ts';
import { encodeReply, type ReplyContent, type Usage } from '../../shared/replies.ts';
import { appendReply } from './append-reply.ts';

/** What one run of a job says to the ingress that waits, in order and numbered. */
export interface ReplySender {
  /** Goes in front of what is said next, after 10 ms at the latest; not at all where the next word is the last one. */
  started(control: string): void;
  /**
   * Text for the client, and how many tokens the model has written up to its end, at least. What comes within 10 ms of the text
   * before is gathered until they are over; wait for the returned promise before sending more.
   */
  chunk(text: string, tokens: number): Promise<void>;
  /** Both resolve when the reply is in the stream, or when nobody reads that stream any more. */
  end(data: { body?: string; usage: Usage }): Promise<void>;
  error(error: ApiError): Promise<void>;
  /** Text of an earlier run was sent, so that this one may not begin. */
  interrupted(promptTokens: number): Promise<void>;
}

type Parts = {
  redis: Redis;
  replyTo: string;
  requestId: string;
  run: number;
  /** The ingress is gone, and its client with it. Called at most once. */
  onGone: () => void;
  /** The first text is about to be sent. */
  onFirstText?: () => void;
  now?: () => number;
};

const gatherMs = 10;
const gatheredCharactersMax = 65_536;
/** Less than an ingress buffers for one client, whatever the characters: it may all arrive at once. */
const unsentCharactersMax = 262_144;

export function createReplySender(parts: Parts): ReplySender {
  const { redis, replyTo, requestId, run, onGone, onFirstText, now = () => performance.now() } = parts;
  let sequence = 0;
  let gathered = '';
  let tokensWritten = 0;
  let timer: NodeJS.Timeout | undefined;
  let sentTextAt: number | undefined;
  let opening: { send: () => void; timer: NodeJS.Timeout } | undefined;
  let unsent = 0;
  let gone = false;
  let latest: Promise<void> = Promise.resolve();

  function openLater(content: ReplyContent): void {
    const open = () => {
      opening = undefined;
      void send(content);
    };
    opening = { send: open, timer: setTimeout(open, gatherMs) };
  }

  /** Takes back what was to go in front. */
  function skipOpening(): (() => void) | undefined {
    const skipped = opening;
    clearTimeout(skipped?.timer);
    opening = undefined;
    return skipped?.send;
  }

  /** The last word needs nothing in front of it: whoever waits learns from it all that is left to know. */
  function sendLast(content: ReplyContent): Promise<void> {
    flush().catch(() => {});
    skipOpening();
    return send(content);
  }

  function send(content: ReplyContent): Promise<void> {
    skipOpening()?.();
    if (gone) return latest;
    const fields = encodeReply({ request: requestId, run, sequence: sequence++, ...content });
    latest = appendReply(redis, replyTo, fields).then((appended) => {
      if (appended || gone) return;
      gone = true;
      onGone();
    });
    // Failed sends surface where the latest is awaited; an earlier one that nobody awaits must not end the process.
    latest.catch(() => {});
    return latest;
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (gathered === '') return latest;
    const text = gathered;
    gathered = '';
    unsent += text.length;
    if (sentTextAt === undefined) onFirstText?.();
    sentTextAt = now();
    return send({ kind: 'chunk', data: text, tokens: tokensWritten }).finally(() => {
      unsent -= text.length;
    });
  }

  return {
    started(control) {
      openLater({ kind: 'started', data: { control } });
    },
    async chunk(text, tokens) {
      gathered += text;
      tokensWritten = tokens;
      const waitMs = sentTextAt === undefined ? 0 : sentTextAt + gatherMs - now();
      // At once where none came just before: of a slow stream each, and of any the first.
      if (waitMs <= 0 || gathered.length >= gatheredCharactersMax) {
        const flushed = flush();
        if (unsent > unsentCharactersMax) await flushed;
        else flushed.catch(() => {});
        return;
      }
      timer ??= setTimeout(() => void flush().catch(() => {}), waitMs);
    },
    end: (data) => sendLast({ kind: 'end', data }),
    error: (error) => sendLast({ kind: 'error', data: packError(error) }),
    interrupted: (promptTokens) => sendLast({ kind: 'interrupted', data: { promptTokens } }),
  };
}
