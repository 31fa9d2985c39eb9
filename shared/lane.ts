/** Interactive: a client waits. Batch: no client waits, and the lane uses the capacity that interactive leaves free. */
export type Lane = 'interactive' | 'batch';

export const lanes: readonly Lane[] = ['interactive', 'batch'];
