/** Commands that each contain a text once, and the number of them to wait for. */
export type Kind = { text: string; count: number };

type Hold = { text: string; where: 'before' | 'after'; reached: () => void };
type Swallowing = { kinds: readonly Kind[]; sent: () => void };

/** What one connection lets through. */
export type Passage = {
  /** The bytes to forward now, including those kept before. Undefined if there are none yet. */
  toTarget(bytes: Buffer): Buffer | undefined;
  /** Whether replies of the target are forwarded now. */
  toClient(): boolean;
};

const nothing: Buffer = Buffer.alloc(0);

/**
 * Holds connections at an exact point of their data, found by a text in it; no I/O. A held connection stays held until its end. If a text
 * arrives in pieces, those before its last one have been forwarded: the target has no complete command of them.
 */
export function watchTexts() {
  let hold: Hold | undefined;
  let swallowing: Swallowing | undefined;
  let isUsed = false;

  const holdAt = (where: Hold['where']) => (text: string) =>
    new Promise<void>((reached) => {
      hold = { text, where, reached };
      isUsed = true;
    });

  function open(): Passage {
    const gate = openGate(() => swallowing);
    let tail = nothing;
    let isHeld = false;
    let heldAfter: Hold | undefined;
    return {
      toTarget(bytes) {
        const seen = Buffer.concat([tail, bytes]);
        const wanted = hold !== undefined && seen.includes(hold.text) ? hold : undefined;
        tail = tailOf(seen, hold?.text);
        if (wanted?.where === 'after') heldAfter = wanted;
        if (wanted?.where === 'before') {
          isHeld = true;
          wanted.reached();
        }
        return isHeld ? undefined : gate.take(bytes);
      },
      toClient() {
        heldAfter?.reached();
        return heldAfter === undefined && !gate.isSwallowed();
      },
    };
  }

  return {
    open,
    holdBefore: holdAt('before'),
    holdAfter: holdAt('after'),
    swallow: (kinds: readonly Kind[]) =>
      new Promise<void>((sent) => {
        swallowing = { kinds, sent };
        isUsed = true;
      }),
    /** Lets everything through on connections opened from now on. Returns whether anything was watched for. */
    forget(): boolean {
      const wasUsed = isUsed;
      [hold, swallowing, isUsed] = [undefined, undefined, false];
      return wasUsed;
    },
  };
}

/** Keeps commands of a kind until there are `count` of them. */
function openGate(swallowing: () => Swallowing | undefined) {
  let kept = nothing;
  let tail = nothing;
  let passed = 0;
  let isSwallowed = false;
  return {
    take(bytes: Buffer): Buffer | undefined {
      const plan = swallowing();
      kept = Buffer.concat([kept, bytes]);
      const kind = plan?.kinds[passed];
      const all = Buffer.concat([tail, kept]);
      const seen = kind === undefined ? 0 : all.toString('latin1').split(kind.text).length - 1;
      if (kind !== undefined && seen > 0 && seen < kind.count) return undefined;
      if (kind !== undefined && seen >= kind.count) passed += 1;
      isSwallowed = passed > 0 && passed === plan?.kinds.length;
      const whole = kept;
      kept = nothing;
      tail = tailOf(all, plan?.kinds[passed]?.text);
      if (isSwallowed) plan?.sent();
      return whole;
    },
    isSwallowed: () => isSwallowed,
  };
}

/** The end of the forwarded bytes that may be the beginning of this text, never all of it. */
function tailOf(bytes: Buffer, text = ''): Buffer {
  return bytes.subarray(Math.max(0, bytes.length - Math.max(0, Buffer.byteLength(text) - 1)));
}
