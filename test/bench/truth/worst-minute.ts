const minuteMs = 60_000;

/**
 * The most of these amounts that were certainly taken within one minute: a gateway decides somewhere between a request's
 * sending and the end of its answer, so both lie within it.
 */
export function worstMinute(taken: readonly { sentAt: number; endedAt: number; amount: number }[]): number {
  const sums = taken.map(({ sentAt: from }) =>
    taken
      .filter(({ sentAt, endedAt }) => sentAt >= from && endedAt <= from + minuteMs)
      .reduce((sum, { amount }) => sum + amount, 0),
  );
  return Math.max(0, ...sums);
}
