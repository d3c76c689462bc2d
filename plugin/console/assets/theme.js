// Themes: what the system has, until the user chooses. What was chosen is kept, also when the page is loaded again.
import { forgetColours } from './dom.js'

const root = document.documentElement
const system = matchMedia('(prefers-color-scheme: dark)')
const dark = () => (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark'

// theme has a button switch between dark and light, and calls repaint when colours are others.
export function theme(button, repaint) {
  const told = () => {
    button.setAttribute('aria-pressed', String(dark()))
    forgetColours()
    repaint()
  }
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark'
    localStorage.setItem('theme', root.dataset.theme)
    told()
  })
  system.addEventListener('change', told)
  const kept = localStorage.getItem('theme')
  if (kept === 'dark' || kept === 'light') root.dataset.theme = kept
  button.setAttribute('aria-pressed', String(dark()))
}
