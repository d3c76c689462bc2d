// How addresses are painted. Patterns tell states apart where colours do not.
import { colour } from './dom.js'

// A paint box has a fillStyle for each state, in the colours of the present theme.
let last = null
export function paintBox(context) {
  if (last?.free !== colour('free')) last = makePaintBox(context)
  return last
}

function makePaintBox(context) {
  const pattern = (back, mark, draw) => {
    const tile = document.createElement('canvas')
    tile.width = tile.height = 6
    const c = tile.getContext('2d')
    c.fillStyle = colour(back)
    c.fillRect(0, 0, 6, 6)
    c.strokeStyle = c.fillStyle = colour(mark)
    draw(c)
    return context.createPattern(tile, 'repeat')
  }
  return {
    free: colour('free'),
    allocated: colour('allocated'),
    reserved: pattern('reserved', 'reserved-mark', c => { c.lineWidth = 1.4; c.beginPath(); c.moveTo(-1, 7); c.lineTo(7, -1); c.stroke() }),
    cooling: pattern('cooling', 'cooling-mark', c => { c.beginPath(); c.arc(3, 3, 1.3, 0, 7); c.fill() }),
    wrong: colour('wrong'),
  }
}

// fill paints a rectangle with a state; share is how much of it is allocated.
export function fill(context, box, state, x, y, w, h, share = 1) {
  context.fillStyle = state === 'allocated' || state === 'wrong' ? box.free : box[state]
  context.fillRect(x, y, w, h)
  if (state === 'allocated') {
    context.globalAlpha = 0.25 + 0.75 * share
    context.fillStyle = box.allocated
    context.fillRect(x, y, w, h)
    context.globalAlpha = 1
  }
  if (state === 'wrong') {
    context.strokeStyle = box.wrong
    context.lineWidth = Math.max(1.5, w / 5)
    context.beginPath()
    context.moveTo(x + 1, y + 1); context.lineTo(x + w - 1, y + h - 1)
    context.moveTo(x + w - 1, y + 1); context.lineTo(x + 1, y + h - 1)
    context.stroke()
  }
}

// states are those of a legend, in its order.
export const states = [['allocated', 'allocated'], ['reserved', 'reserved'], ['cooling', 'cooling down'], ['wrong', 'something is wrong'], ['free', 'free']]
