import type { Redis } from 'ioredis';
import { encodeReply, type Reply } from '../../shared/jobs/replies.ts';
import { encodeFrame } from '../../shared/jobs/reply-frames.ts';
import { atEndOfTurn } from '../../shared/redis/end-of-turn.ts';
import { takesFrames } from '../../shared/redis/keys.ts';
import { appendEntry } from './append-entry.ts';

/** A reply that waits in a frame, or has left with it. */
export interface PostedReply {
  /** False where the stream is gone; fails as Redis does. */
  sent: Promise<boolean>;
  /** Adds text to a chunk, which then stands for so many tokens. False once the chunk has left, or if its frame has no room. */
  add(text: string, tokens: number): boolean;
}

/** The replies of all runs of this worker, on their way to the ingresses that wait for them. */
export interface ReplyFrames {
  /**
   * Sends a reply with the next frame to this stream. An urgent one goes at the end of this turn of the event loop, another one
   * 5 ms after the last frame at the latest. Replies to one stream keep their order.
   */
  post(replyTo: string, reply: Reply, how: { isUrgent: boolean }): PostedReply;
}

/** Each frame costs a command, a wake-up and a read. Text waits this long for more. */
const gatherMs = 5;
/** A larger reply is sent alone. In UTF-16 code units. */
const frameCharactersMax = 65_536;
const frameRepliesMax = 256;
/** The bound of a stream, about. An ingress that reads too late finds a gap. */
const streamEntriesMax = 20_000;
const streamCharactersMax = 134_217_728;
/** Of idle streams, more are forgotten. */
const streamsKeptMax = 1_000;

type Frame = { replies: Reply[]; characters: number; isUrgent: boolean; sent: PromiseWithResolvers<boolean> };

/** `entryCharacters`: of its latest entries on average. */
type Stream = {
  key: string;
  frame: Frame | undefined;
  sentAt: number;
  timer: NodeJS.Timeout | undefined;
  entryCharacters: number;
};

export function createReplyFrames(deps: { redis: Redis; charactersMax?: number; now?: () => number }): ReplyFrames {
  const { redis, charactersMax = streamCharactersMax, now = () => performance.now() } = deps;
  const streams = new Map<string, Stream>();

  function streamOf(key: string): Stream {
    const known = streams.get(key);
    if (known !== undefined) return known;
    if (streams.size >= streamsKeptMax) forgetIdle();
    const stream = { key, frame: undefined, sentAt: Number.NEGATIVE_INFINITY, timer: undefined, entryCharacters: 0 };
    streams.set(key, stream);
    return stream;
  }

  function forgetIdle(): void {
    for (const [key, { frame }] of streams) if (frame === undefined) streams.delete(key);
  }

  function frameFor(stream: Stream, characters: number): Frame {
    const { frame } = stream;
    if (frame !== undefined) {
      if (frame.replies.length < frameRepliesMax && frame.characters + characters <= frameCharactersMax) return frame;
      leave(stream, frame);
    }
    const sent = Promise.withResolvers<boolean>();
    sent.promise.catch(() => {}); // senders handle it where they await it
    stream.frame = { replies: [], characters: 0, isUrgent: false, sent };
    return stream.frame;
  }

  function schedule(stream: Stream, frame: Frame, isUrgent: boolean): void {
    if (frame.isUrgent) return;
    const waitMs = stream.sentAt + gatherMs - now();
    frame.isUrgent = isUrgent || waitMs <= 0;
    if (frame.isUrgent) atEndOfTurn(() => leave(stream, frame), 'gather');
    else stream.timer ??= setTimeout(() => leave(stream, frame), waitMs);
  }

  function leave(stream: Stream, frame: Frame): void {
    if (stream.frame !== frame) return;
    clearTimeout(stream.timer);
    stream.timer = undefined;
    stream.frame = undefined;
    stream.sentAt = now();
    frame.sent.resolve(append(stream, frame));
  }

  async function append(stream: Stream, { replies, characters }: Frame): Promise<boolean> {
    const { key } = stream;
    // An ingress of the release before this one reads one reply in each entry.
    const entries = takesFrames(key) ? [encodeFrame(replies)] : replies.map(encodeReply);
    // Others write here, too: their entries must not go because one of ours was large.
    const latest = Math.min(frameCharactersMax, characters / entries.length);
    stream.entryCharacters += (latest - stream.entryCharacters) / 16;
    const lengthMax = Math.min(streamEntriesMax, Math.ceil(charactersMax / Math.max(1, stream.entryCharacters)));
    const appended = await Promise.all(entries.map((fields) => appendEntry(redis, key, { fields, lengthMax })));
    const isThere = appended.every(Boolean);
    if (!isThere && stream.frame === undefined) streams.delete(key);
    return isThere;
  }

  return {
    post(replyTo, reply, { isUrgent }) {
      const stream = streamOf(replyTo);
      const characters = charactersOf(reply);
      const frame = frameFor(stream, characters);
      frame.replies.push(reply);
      frame.characters += characters;
      if (frame.characters >= frameCharactersMax) leave(stream, frame);
      else schedule(stream, frame, isUrgent);
      return {
        sent: frame.sent.promise,
        add(text, tokens) {
          if (stream.frame !== frame || reply.kind !== 'chunk') return false;
          if (frame.characters + text.length > frameCharactersMax) return false;
          reply.data += text;
          reply.tokens = tokens;
          frame.characters += text.length;
          return true;
        },
      };
    },
  };
}

function charactersOf(reply: Reply): number {
  if (reply.kind === 'chunk') return reply.data.length;
  return reply.kind === 'end' ? (reply.data.body?.length ?? 0) : 0;
}
